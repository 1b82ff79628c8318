"""A backfill on the model of DynamoDB: what is put, at which price, and under throttles."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from fanfold import clock as product_clock
from fanfold import names, times
from fanfold.aws.retries import STEP
from fanfold.errors import TryLater
from fanfold.fanout.pacing import FIRST_SHARE, Pace
from fanfold.follows.backfill import Backfilling, NewestPosts
from fanfold.follows.relation import FOLLOWED, Follow
from fanfold.timeline.entries import Entries, Entry
from fanfold.timeline.outbox import Outbox
from fanfold.timeline.posts import OUTLIVES_SECONDS, Post, Posts
from proof.model.clock import START_MS, Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import READ, Meter
from proof.model.dynamodb.tables import Hooks
from proof.model.errors import Refused, client_error
from tests.stores import client_of

BOB = "b0b00000-0000-4000-8000-000000000001"
ADA = "ada00000-0000-4000-8000-000000000001"
DAY_MS = 86_400_000
RETENTION_DAYS = 30
MOST = 30
# Far more than a backfill needs, so that nothing waits.
RATE = 10_000.0


@dataclass
class World:
    """RELATE's use case, a publisher's posts, and one follower."""

    clock: Clock = field(default_factory=Clock)
    meter: Meter = field(default_factory=Meter)
    lag: float = 0.0  # of the outbox
    left_over: list[list[int]] = field(default_factory=list)  # by each batch, until it is empty
    refusals: list[str] = field(default_factory=list)  # the errors of the next batches of writes
    batches: list[list[str]] = field(default_factory=list)  # the sort keys that were to be written
    posted: int = 0

    def __post_init__(self) -> None:
        hooks = Hooks(index_lag=lambda _table, _index: self.lag, unprocessed=self._left_over)
        about: dict[str, Any] = {"hooks": hooks, "meter": self.meter, "validates": False}
        self.client = client = client_of(*names.TABLES, clock=self.clock, **about)
        self.posts = Posts(client, names.POSTS.name)
        watched: Any = Watched(self)
        self.entries = Entries(watched, names.TIMELINES.name)
        outbox = Outbox(client, names.POSTS.name)
        self.backfilling = Backfilling(NewestPosts(outbox, RETENTION_DAYS, MOST), self.entries)
        self.pace = Pace(RATE)

    def _left_over(self, _operation: str, table: str, count: int) -> list[int]:
        is_ours = table == names.TIMELINES.name and self.left_over
        return [each for each in self.left_over.pop(0) if each < count] if is_ours else []

    def post(self, count: int = 1, *, age_ms: int = 0) -> list[Entry]:
        """Publish posts, oldest first; returns the entries that a fan-out writes for them."""
        made = []
        for _ in range(count):
            self.posted += 1
            published_ms = self.clock.now_ms() - age_ms + self.posted
            at = times.to_text(published_ms)
            expires_at = published_ms // 1000 + RETENTION_DAYS * DAY_MS // 1000
            post = Post(
                ref_id=f"90570000-0000-4000-8000-{self.posted:012d}",
                publisher_id=ADA,
                published_at=at,
                accepted_at=at,
                expires_at=expires_at + OUTLIVES_SECONDS,
                body="{}",
            )
            self.posts.add(post, now=self.clock.now_ms() // 1000)
            made.append(Entry(post.sort_key, ADA, expires_at))
        return made

    def follow(self, version: int = 1, state: str = FOLLOWED) -> Follow:
        return Follow(user_id=BOB, publisher_id=ADA, state=state, version=version)

    def first(self, *, sent_at: int | None = None, **more: Any) -> int:
        follow = more.pop("follow", self.follow())
        order = {"redelivered": False, "pace": self.pace, "stop_at": 1e9, **more}
        sent_at = self.clock.now_ms() if sent_at is None else sent_at
        return self.backfilling.first(follow, sent_at=sent_at, **order)

    def second(self, *, sent_at: int | None = None, follow: Follow | None = None) -> int:
        sent_at = self.clock.now_ms() - 10_000 if sent_at is None else sent_at
        follow = follow or self.follow()
        return self.backfilling.second(follow, sent_at=sent_at, pace=self.pace, stop_at=1e9)

    def timeline(self) -> list[Entry]:
        """What Bob has, oldest first."""
        rows = self.client.state.table(names.TIMELINES.name).space.partitions[BOB].rows.values()
        return sorted(
            Entry(item["sort_key"][1], item["publisher_id"][1], int(item["expires_at"][1]))
            for item in (row.item for row in rows)
        )

    def units(self, kind: str) -> float:
        return float(sum(units for (_, each), units in self.meter.units.items() if each == kind))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(product_clock, "now_ms", made.clock.now_ms)
    monkeypatch.setattr(product_clock, "monotonic", lambda: made.clock.elapsed)
    monkeypatch.setattr(product_clock, "sleep", made.clock.advance)
    monkeypatch.setattr(product_clock, "chance", lambda: 1.0)  # pauses as long as they may be
    return made


@dataclass
class Watched:
    """The client for timelines, which refuses as the world says."""

    world: World

    def batch_get_item(self, **request: Any) -> Any:
        return self.world.client.batch_get_item(**request)

    def batch_write_item(self, **request: Any) -> Any:
        puts = request["RequestItems"][names.TIMELINES.name]
        self.world.batches.append([put["PutRequest"]["Item"]["sort_key"]["S"] for put in puts])
        if self.world.refusals and (code := self.world.refusals.pop(0)):
            raise client_error(dynamodb.SERVICE, "BatchWriteItem", Refused(code, "Not now."))
        return self.world.client.batch_write_item(**request)


# What is put


def test_a_first_follow_brings_the_newest_posts_as_their_fanouts_would(world: World) -> None:
    posts = world.post(40)
    assert world.first() == MOST
    assert world.timeline() == posts[-MOST:]
    assert [len(batch) for batch in world.batches] == [25, 5]
    assert world.batches[0] == [post.sort_key for post in reversed(posts[-25:])], "newest first"


def test_the_same_order_twice_leaves_the_same_entries(world: World) -> None:
    posts = world.post(3)
    world.first()
    world.first()
    assert world.timeline() == posts


def test_posts_beyond_the_retention_and_retracted_ones_are_left_out(world: World) -> None:
    world.post(2, age_ms=RETENTION_DAYS * DAY_MS + 1_000)
    young = world.post(3, age_ms=RETENTION_DAYS * DAY_MS - 1_000)
    world.posts.retract_own(young[1].sort_key.partition("#")[2], ADA, now_ms=world.clock.now_ms())
    assert world.first() == 2
    assert world.timeline() == [young[0], young[2]]


def test_a_second_pass_puts_what_the_first_has_missed_and_nothing_else(world: World) -> None:
    old = world.post(5)
    world.lag = 3.0
    racing = world.post(1)
    assert world.first() == 5
    world.clock.advance(10)
    assert world.second() == 1
    assert world.timeline() == [*old, *racing]
    assert world.batches[1:] == [[racing[0].sort_key]]
    assert world.second() == 0


def test_both_looks_bring_ten_where_they_come_late_together(world: World) -> None:
    posts = world.post(30)
    world.clock.advance(90)
    assert world.first(sent_at=START_MS) == 10
    assert world.second(sent_at=START_MS) == 0
    assert world.timeline() == posts[-10:]


# The remembered page


def test_a_page_read_a_second_after_the_edge_serves_all_orders_before_it(world: World) -> None:
    world.post(5)
    orders = [world.clock.now_ms() + each for each in (0, 100, 200)]
    world.clock.advance(1.2)
    world.first(sent_at=orders[0])
    before = world.meter.units.copy()
    assert world.first(sent_at=orders[1]) == world.first(sent_at=orders[2]) == 5
    paid = world.meter.units - before
    assert {resource.table for resource, _ in paid} == {names.TIMELINES.name}


@pytest.mark.parametrize("when", ["after five seconds", "frozen", "in a new container"])
def test_a_remembered_page_is_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    world.post(1)
    world.clock.advance(60)
    world.first(sent_at=START_MS)
    if when == "in a new container":
        world.backfilling.forget()
    else:
        if when == "frozen":
            stopped = world.clock.elapsed
            monkeypatch.setattr(product_clock, "monotonic", lambda: stopped)
        world.clock.advance(5.1)
    (newer,) = world.post(1)
    assert world.first(sent_at=START_MS) == 1, "the new one is found, the old one is held"
    assert newer in world.timeline()


# Throttles, unprocessed items, and the deadline


def test_unprocessed_items_are_matched_by_key_and_sent_again(world: World) -> None:
    posts = world.post(30)
    world.left_over = [[0, 24], [], [1]]
    assert world.first() == MOST
    assert world.timeline() == posts
    newest = [post.sort_key for post in reversed(posts)]
    assert world.batches == [newest[:25], newest[25:], [newest[0], newest[24]], [newest[24]]]


def test_a_refused_batch_is_sent_again_after_a_pause_and_only_a_throttle_slows_the_pace_down(
    world: World,
) -> None:
    world.post(1)
    world.refusals = ["InternalServerError"] * 3
    began = world.clock.elapsed
    assert world.first() == 1
    assert world.clock.elapsed > began
    unhurt = world.pace.rate
    world.refusals = ["ProvisionedThroughputExceededException"] * 3
    world.first()
    assert world.pace.rate < unhurt


def test_a_table_that_goes_on_refusing_lets_the_order_come_again(world: World) -> None:
    posts = world.post(30)
    world.refusals = ["", *["ProvisionedThroughputExceededException"] * 9]
    with pytest.raises(TryLater, match="it comes again"):
        world.first()
    assert world.timeline() == posts[5:], "what was written stays"
    assert len(world.batches) == 1 + STEP.attempts
    world.refusals = []
    world.first(redelivered=True)
    assert world.timeline() == posts
    assert len(world.batches[-1]) == 5, "the rest alone"


def test_the_pace_is_kept_by_orders_side_by_side(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.post(30)
    world.pace = Pace(200.0, burst=25)
    slept: list[float] = []
    monkeypatch.setattr(product_clock, "sleep", slept.append)
    with ThreadPoolExecutor(10) as threads:
        assert sum(threads.map(lambda _: world.first(), range(10))) == 300
    # They all began at once: the last of them has waited until all before were due, at half pace.
    assert max(slept) == pytest.approx((300 - 25) / (200 * FIRST_SHARE))


def test_no_batch_begins_that_the_worker_has_no_time_for(world: World) -> None:
    world.post(30)
    world.pace = Pace(25.0, burst=25)
    with pytest.raises(TryLater):
        world.first(stop_at=world.clock.elapsed + 0.1)
    assert [len(batch) for batch in world.batches] == [25]
    with pytest.raises(TryLater):
        world.first(stop_at=world.clock.elapsed)
    assert len(world.batches) == 1


@pytest.mark.parametrize("remembered", [False, True])
def test_no_read_begins_that_the_worker_has_no_time_for(world: World, remembered: bool) -> None:
    world.post(1)
    world.clock.advance(60)
    if remembered:
        world.first(sent_at=START_MS)
    before = world.units(READ)
    with pytest.raises(TryLater):
        world.first(sent_at=START_MS, redelivered=True, stop_at=world.clock.elapsed)
    assert world.units(READ) == before
