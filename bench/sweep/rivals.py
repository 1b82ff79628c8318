"""Other rules for SWEEP, each in a few lines, on a ledger in memory.

They see what the product sees and more: backlogs and ages are exact, no call fails or costs
anything, and each knows which lane is paused. A round is: send all that is pending again.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.sweep.lanes import Order
from bench.sweep.world import (
    BULK,
    EXPRESS,
    EXPRESS_SECONDS,
    GLANCE_SECONDS,
    PLAN,
    PUBLISH,
    SEGMENT_SECONDS,
    Post,
    World,
    key_of,
)
from fanfold.messages import DeliverSegment, PlanFanout

QUEUED_TOO_LONG_SECONDS = 120
OVERDUE_SECONDS = 360  # the lanes' visibility timeout
NEARLY_EMPTY = 10
FIRST_WAIT_SECONDS = 420
MAX_ROUNDS = 10


@dataclass(eq=False)
class Row:
    post: Post
    changed_at: float
    sent_at: float
    pending: set[int] = field(default_factory=set)
    is_planned: bool = False
    is_stalled: bool = False
    rounds: int = 0

    @property
    def is_complete(self) -> bool:
        return self.is_planned and not self.pending

    @property
    def lane(self) -> str:
        if not self.is_planned:
            return PUBLISH
        return EXPRESS if self.post.segments == 1 else BULK

    def progress(self, now: float) -> None:
        self.changed_at, self.rounds, self.is_stalled = now, 0, False


@dataclass(eq=False)
class Rival(ABC):
    world: World
    rows: dict[str, Row] = field(default_factory=dict)
    open: dict[str, Row] = field(default_factory=dict)

    @abstractmethod
    def is_lost(self, row: Row, quiet: float) -> bool:
        """Whether the silence of a row, in seconds, means that its orders are lost."""

    @property
    def now(self) -> float:
        return self.world.scheduler.now

    def accept(self, post: Post) -> None:
        row = Row(post, self.now, self.now)
        self.rows[post.fanout_id] = self.open[post.fanout_id] = row
        self._send(row)

    def plan(self, order: Order) -> None:
        row = self.rows[key_of(json.loads(order.body))[0]]
        if not row.is_planned:
            row.is_planned, row.pending = True, set(range(row.post.segments))
            row.progress(self.now)
            row.sent_at = self.now
            self._send(row)

    def deliver(self, order: Order, lane: str) -> None:
        fanout_id, segment = key_of(json.loads(order.body))
        row = self.rows[fanout_id]
        if segment not in row.pending:
            return
        seconds = EXPRESS_SECONDS if lane == EXPRESS else SEGMENT_SECONDS
        self.world.scheduler.sleep(seconds - GLANCE_SECONDS)
        if segment in row.pending:
            row.pending.remove(segment)
            row.progress(self.now)
            if row.is_complete:
                self.open.pop(fanout_id, None)

    def sweep(self) -> None:
        for row in list(self.open.values()):
            if row.is_stalled or self.world.is_paused(row.lane):
                continue
            if self.is_lost(row, self.now - row.changed_at):
                self._again(row)

    def is_complete(self, fanout_id: str) -> bool:
        return fanout_id in self.rows and self.rows[fanout_id].is_complete

    def stalled(self) -> int:
        return sum(row.is_stalled for row in self.open.values())

    def _again(self, row: Row) -> None:
        row.changed_at = self.now
        if row.rounds >= MAX_ROUNDS:
            row.is_stalled = True
            return
        row.rounds += 1
        row.sent_at = self.now
        self._send(row)

    def _send(self, row: Row) -> None:
        post, lane = row.post, row.lane
        if not row.is_planned:
            content = PlanFanout(fanout_id=post.fanout_id).message(group=post.publisher_id).content
            key = (post.fanout_id, PLAN)
            self.world.send(lane, key, post.publisher_id, json.dumps(content))
            return
        for segment in sorted(row.pending):
            command = DeliverSegment(
                fanout_id=post.fanout_id, segment=segment, segments=post.segments
            )
            body = json.dumps(command.message(group=post.publisher_id).content)
            self.world.send(lane, (post.fanout_id, segment), post.publisher_id, body)


class NearlyEmpty(Rival):
    """Fanfold's first rule: a silence means nothing while its queue has a backlog."""

    def is_lost(self, row: Row, quiet: float) -> bool:
        too_long = OVERDUE_SECONDS if row.is_planned else QUEUED_TOO_LONG_SECONDS
        return quiet > too_long and self.world.queues[row.lane].backlog <= NEARLY_EMPTY


class OldestYounger(Rival):
    """Lost is what was sent before the oldest message that its queue still has."""

    def is_lost(self, row: Row, quiet: float) -> bool:
        if quiet <= (OVERDUE_SECONDS if row.is_planned else QUEUED_TOO_LONG_SECONDS):
            return False
        oldest = self.world.queues[row.lane].oldest_ms()
        sent_ms = self.world.scheduler.clock.start_ms + int(1_000 * row.sent_at)
        return oldest is None or oldest > sent_ms


class Doubling(Rival):
    """Send all again after a while, whatever the queue has; wait twice as long each time."""

    def is_lost(self, row: Row, quiet: float) -> bool:
        first = FIRST_WAIT_SECONDS if row.is_planned else QUEUED_TOO_LONG_SECONDS
        return quiet > first * (1 << row.rounds)


RIVALS: dict[str, Callable[[World], Rival]] = {
    "backlog nearly empty": NearlyEmpty,
    "oldest message younger": OldestYounger,
    "send all again, doubling": Doubling,
}
