"""SWEEP: every minute, send again what was accepted and lost on its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice

from fanfold import clock, times
from fanfold.aws.event_sources import EventSourceMappings
from fanfold.aws.queues import WorkQueue
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import COMPLETE, DELIVERING, QUEUED, STALLED, Fanout, Ledger
from fanfold.messages import PlanFanout

# PLAN takes a message within seconds unless its queue is long; two minutes are no hurry.
QUEUED_TOO_LONG_SECONDS = 120
# With so few messages waiting, a segment without progress is lost rather than late.
NEARLY_EMPTY = 10
# Rounds without a finished segment in between, after which a person should look.
MAX_ROUNDS = 10
# Open fan-outs looked at in one run; the index is read in pages of 100.
MAX_LOOKED_AT = 1_000
PAGE = 100


IsPaused = Callable[[str], bool]


@dataclass(frozen=True)
class Swept:
    """What one look at one fan-out led to."""

    fanout_id: str
    what: str


@dataclass(frozen=True)
class Sweeping:
    """The use case behind the clock."""

    fanouts: Ledger
    publish_queue: WorkQueue
    lanes: Lanes
    overdue_seconds: int
    feeds: EventSourceMappings

    def sweep(self) -> Iterator[Swept]:
        """Look at the open fan-outs, bounded, and mend what needs it. Two at once do no harm.

        What waits in a queue that is paused is not lost, and no round is counted for it.
        """
        # Once in a run: the API that answers takes few calls a second.
        is_paused = cache(self.feeds.is_paused)
        for fanout_id in islice(self.fanouts.open_ids(page=PAGE), MAX_LOOKED_AT):
            fanout = self.fanouts.get(fanout_id)
            what = self._mend(fanout, is_paused) if fanout else ""
            if what:
                yield Swept(fanout_id, what)

    def stalled(self) -> int:
        """How many fan-outs are given up, counted up to a bound, for the alarm."""
        return sum(1 for _ in islice(self.fanouts.stalled_ids(page=PAGE), MAX_LOOKED_AT))

    def _mend(self, fanout: Fanout, is_paused: IsPaused) -> str:
        idle_seconds = (clock.now_ms() - times.to_ms(fanout.changed_at)) / 1000
        if fanout.state == QUEUED and idle_seconds > QUEUED_TOO_LONG_SECONDS:
            # A long backlog explains the silence; to add to it would only make it longer.
            if self.publish_queue.backlog() > NEARLY_EMPTY or is_paused(self.publish_queue.url):
                return ""
            return self._again(fanout, self._send_plan)
        if fanout.state == COMPLETE:  # the index lags behind
            return ""
        if fanout.segments and not fanout.pending:  # its last worker stopped just before
            now = times.to_text(clock.now_ms())
            done = self.fanouts.complete_if_delivered(fanout.fanout_id, now=now)
            return "completed" if done else ""
        if fanout.state == DELIVERING and self._is_overdue(fanout, idle_seconds, is_paused):
            return self._again(fanout, self.lanes.send_pending)
        return ""

    def _is_overdue(self, fanout: Fanout, idle_seconds: float, is_paused: IsPaused) -> bool:
        """No progress for longer than a lane hides a message, and nothing that explains it."""
        if idle_seconds <= self.overdue_seconds:
            return False
        lane = self.lanes.for_segments(fanout.segments)
        return lane.backlog() <= NEARLY_EMPTY and not is_paused(lane.url)

    def _send_plan(self, fanout: Fanout) -> None:
        order = PlanFanout(fanout_id=fanout.fanout_id)
        self.publish_queue.send(order.message(group=fanout.publisher_id))

    def _again(self, fanout: Fanout, send: Callable[[Fanout], None]) -> str:
        """Count the round first, so that a run that stops here cannot repeat without end."""
        now = times.to_text(clock.now_ms())
        if fanout.rounds >= MAX_ROUNDS:
            return STALLED if self.fanouts.give_up(fanout, now=now) else ""
        if not self.fanouts.next_round(fanout, now=now):
            return ""  # it moved meanwhile, or another SWEEP took it
        send(fanout)
        return "sent again"
