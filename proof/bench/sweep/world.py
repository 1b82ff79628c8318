"""The world of the bench: posts, lanes and workers, the minute clock of SWEEP, and what gets lost.

A `Books` does the work of PLAN, DELIVER and SWEEP: the product's own code (`product.py`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Protocol

from fanfold import contract, names
from fanfold.budgets import DEFAULT_WRITE_CAPACITY, Budget
from fanfold.errors import Unsent
from fanfold.fanout.segment_size import MAX_SEGMENTS, SEGMENT_FOLLOWERS
from proof.bench.sweep.lanes import LaneQueue, Order
from proof.model.clock import Clock
from proof.simulation.world.scheduler import Scheduler, virtual_time

BUDGET = Budget.of(DEFAULT_WRITE_CAPACITY)
# PLAN's default workers, and about the time that it takes for a post.
PUBLISH_WORKERS, PLAN_SECONDS = 10, 0.05
# DELIVER's: a full segment at the pace of its lane. One of the express lane has 500 followers here.
SEGMENT_SECONDS = SEGMENT_FOLLOWERS / BUDGET.bulk.worker_rate
EXPRESS_SECONDS = 0.1
# To find that there is nothing to do.
GLANCE_SECONDS = 0.02
# Segments of the backlog without a ledger row are worked on in runs of this many, one after the
# other, to save events: a worker is busy for 19 s instead of eight times 2.4 s.
RUN = 8
# The group of what a busy queue always has in flight, and how long each of these takes.
STEADY, STEADY_SECONDS = "steady", 1.0
# More than a queue always has in flight, so that it stays healthy.
SPARE_WORKERS = 5
MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0
BASE_URL = "http://127.0.0.1/123456789012/"
PUBLISH, EXPRESS, BULK = (BASE_URL + q.name for q in (names.PUBLISH, names.EXPRESS, names.BULK))
# The plan order of a fan-out, where others have the number of a segment.
PLAN = -1

Key = tuple[str, int]  # a fan-out and a segment, or PLAN


@dataclass(frozen=True)
class SweepPost:
    """A post, when it is accepted, and which of its orders are lost when they are first sent."""

    fanout_id: str
    publisher_id: str
    segments: int
    at: float = 0.0
    lost: frozenset[int] = frozenset()

    @property
    def keys(self) -> Iterator[Key]:
        return ((self.fanout_id, segment) for segment in range(PLAN, self.segments))


@dataclass(frozen=True)
class Traffic:
    """Segments that only occupy the bulk lane, and belong to no fan-out of the ledger."""

    at: float
    group: str
    segments: int


@dataclass(frozen=True, kw_only=True)
class WorldCase:
    """A world, before anything has happened in it; times are seconds since the beginning."""

    name: str
    others: tuple[SweepPost, ...]
    large: tuple[SweepPost, ...] = ()  # the fan-outs of the backlog that have a row in the ledger
    traffic: tuple[Traffic, ...] = ()  # the others
    steady: int = 0  # messages that each queue always has in flight
    is_fair: bool = True
    refuses: bool = False  # what gets lost is refused when it is sent
    is_timed: bool = False  # SWEEP's calls take their time
    purged_at: float | None = None
    paused: tuple[float, float] | None = None  # the bulk lane
    days: float = 7  # by then, everything has to be over


class Books(Protocol):
    """What PLAN, DELIVER and SWEEP do."""

    def accept(self, post: SweepPost) -> None:
        """Accept a post, and send its plan order."""

    def plan(self, order: Order) -> None: ...

    def deliver(self, order: Order, lane: str) -> None: ...

    def sweep(self) -> None:
        """One run of SWEEP, at the start of a minute."""

    def is_complete(self, fanout_id: str) -> bool: ...

    def stalled(self) -> int:
        """How many are given up now."""


@dataclass
class SweepWorld:
    case: WorldCase
    scheduler: Scheduler = field(default_factory=lambda: Scheduler(Random(0), clock=Clock()))
    sent: Counter[Key] = field(default_factory=Counter)  # those that were lost too
    lost_at: dict[Key, float] = field(default_factory=dict)
    again_at: dict[Key, float] = field(default_factory=dict)
    stalled: int = 0  # the most that were given up at one time
    sweeps: int = 0

    def __post_init__(self) -> None:
        self.queues = {
            url: LaneQueue(lambda: self.scheduler.now, self.case.is_fair)
            for url in (PUBLISH, EXPRESS, BULK)
        }
        self.free = {
            PUBLISH: PUBLISH_WORKERS,
            EXPRESS: BUDGET.express.max_concurrency,
            BULK: BUDGET.bulk.max_concurrency,
        }
        if self.case.steady:
            self.free = dict.fromkeys(self.free, self.case.steady + SPARE_WORKERS)
        self.posts = {post.fanout_id: post for post in (*self.case.large, *self.case.others)}
        self._to_lose = {(p.fanout_id, n) for p in self.posts.values() for n in p.lost}
        self._last_at = max(post.at for post in self.posts.values())
        self._next_look = 0.0

    @property
    def now_ms(self) -> int:
        return self.scheduler.clock.now_ms()

    def is_paused(self, url: str) -> bool:
        if url != BULK or self.case.paused is None:
            return False
        start, end = self.case.paused
        return start <= self.scheduler.now < end

    def run(self, make: Callable[[SweepWorld], Books]) -> SweepWorld:
        """Let everything happen, until each post is delivered or the time is over."""
        with virtual_time(self.scheduler):
            self.books = make(self)
            self._begin()
            end = DAY * self.case.days
            self.scheduler.run(lambda: self._is_over() or self.scheduler.now > end)
        return self

    def _begin(self) -> None:
        at = self.scheduler.at
        for each in self.case.traffic:
            at(each.at, partial(self._join, each))
        for url in self.queues:
            for _ in range(self.case.steady):
                self._put(url, Order(self.now_ms, STEADY))
        for post in self.posts.values():
            at(post.at, partial(self.scheduler.start, partial(self.books.accept, post)))
        if self.case.purged_at is not None:
            at(self.case.purged_at, self._purge)
        if self.case.paused is not None:
            at(self.case.paused[1], partial(self._work, BULK))
        at(MINUTE, self._minute)

    def _minute(self) -> None:
        self.scheduler.start(self._sweep)
        self.scheduler.at(self.scheduler.now + MINUTE, self._minute)

    def _sweep(self) -> None:
        self.sweeps += 1
        self.books.sweep()
        self.stalled = max(self.stalled, self.books.stalled())

    def _is_over(self) -> bool:
        """Looked at once a minute: it takes longer than most events."""
        if self.scheduler.now < max(self._last_at, self._next_look):
            return False
        self._next_look = self.scheduler.now + MINUTE
        return all(map(self.books.is_complete, self.posts))

    # What happens to orders

    def send(self, url: str, key: Key, group: str, body: str) -> None:
        """Take an order into a queue, unless it is one that gets lost."""
        self.sent[key] += 1
        if key in self._to_lose:
            self._to_lose.remove(key)
            self.lost_at[key] = self.scheduler.now
            if self.case.refuses:
                raise Unsent("The queue refused a message.")
            return
        if key in self.lost_at:
            self.again_at.setdefault(key, self.scheduler.now)
        self._put(url, Order(self.now_ms, group, body))

    def _join(self, traffic: Traffic) -> None:
        self._put(BULK, Order(self.now_ms, traffic.group, count=-(-traffic.segments // RUN)))

    def _put(self, url: str, order: Order) -> None:
        self.queues[url].put(order)
        self._work(url)

    def _purge(self) -> None:
        for order in self.queues[BULK].purge():
            if order.body:
                self.lost_at[key_of(json.loads(order.body))] = self.scheduler.now

    def _work(self, url: str) -> None:
        """Start a free worker for each message that waits."""
        queue = self.queues[url]
        while self.free[url] and queue.waiting and not self.is_paused(url):
            order = queue.take()
            assert order is not None
            self.free[url] -= 1
            if order.body:
                self.scheduler.start(partial(self._handle, url, order))
            else:
                end = partial(self._end, url, order, self.scheduler.now)
                seconds = STEADY_SECONDS if order.group == STEADY else RUN * SEGMENT_SECONDS
                self.scheduler.at(self.scheduler.now + seconds, end)

    def _handle(self, url: str, order: Order) -> None:
        began = self.scheduler.now
        if url == PUBLISH:
            self.scheduler.sleep(PLAN_SECONDS)
            self.books.plan(order)
        else:
            self.scheduler.sleep(GLANCE_SECONDS)
            self.books.deliver(order, url)
        self._end(url, order, began)

    def _end(self, url: str, order: Order, began: float) -> None:
        self.queues[url].end(order, self.scheduler.now - began)
        self.free[url] += 1
        if order.group == STEADY:
            self.queues[url].put(Order(self.now_ms, STEADY))
        self._work(url)

    # What came of it

    @property
    def extra_percent(self) -> float:
        """Messages beyond those needed, in percent: one for 5,000 followers, and one for each loss.

        An order of more followers than that counts for as many. Fan-outs of the backlog without a
        row count like those that have one.
        """
        rows = {post.fanout_id for post in self.case.large}
        stand_for = 1 + len(self.case.traffic) / len(rows) if rows else 1.0
        needed = extra = 0.0
        for key, sent in self.sent.items():
            weight = stand_for if key[0] in rows else 1.0
            segments = self.posts[key[0]].segments if key[1] != PLAN else 1
            needed += weight * segments / min(segments, MAX_SEGMENTS)
            extra += weight * (sent - 1 - (key in self.again_at))
        return 100 * extra / needed

    @property
    def mended(self) -> dict[str, float]:
        """Minutes from the loss until all lost orders were sent again, by fan-out.

        What is sent again after a pause of its lane counts from the end of the pause. What was not
        sent again counts up to the end of the run.
        """
        minutes: dict[str, float] = {}
        for key, lost_at in self.lost_at.items():
            again_at, since = self.again_at.get(key, self.scheduler.now), lost_at
            if self.case.paused and self._in_bulk(key) and again_at >= self.case.paused[1]:
                since = max(lost_at, self.case.paused[1])
            minutes[key[0]] = max(minutes.get(key[0], 0.0), (again_at - since) / MINUTE)
        return minutes

    def _in_bulk(self, key: Key) -> bool:
        return key[1] != PLAN and self.posts[key[0]].segments > 1

    @property
    def unmended(self) -> int:
        """Orders that were never sent again."""
        return len(self.lost_at.keys() - self.again_at.keys())


@dataclass(frozen=True)
class QueueClient:
    """The call of an SQS client that PLAN, DELIVER and SWEEP make."""

    world: SweepWorld

    def send_message_batch(self, *, QueueUrl: str, Entries: list[dict[str, Any]]) -> Any:  # noqa: N803
        for entry in Entries:
            body = entry["MessageBody"]
            self.world.send(QueueUrl, key_of(json.loads(body)), entry["MessageGroupId"], body)
        return {"Successful": [{"Id": entry["Id"]} for entry in Entries]}


@dataclass(frozen=True)
class LambdaClient:
    """Lambda's event source mappings, whose id is the URL of their queue."""

    world: SweepWorld

    def get_event_source_mapping(self, *, UUID: str) -> Any:  # noqa: N803
        return {"State": "Disabled" if self.world.is_paused(UUID) else "Enabled"}


def key_of(content: dict[str, Any]) -> Key:
    is_plan = content["type"] == contract.FANOUT_PLAN
    return content["fanout_id"], PLAN if is_plan else content["segment"]
