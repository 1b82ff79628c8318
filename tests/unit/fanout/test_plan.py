"""PLAN's decisions, over a ledger and a ring of followers in memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fanfold import clock, times
from fanfold.fanout.backlog import Resume
from fanfold.fanout.deliver import Outcome
from fanfold.fanout.lookup import Found
from fanfold.fanout.pacing import Pace
from fanfold.fanout.plan import Planning
from fanfold.fanout.row import DELIVERING, QUEUED, STALLED, VOID, VOID_MS
from fanfold.fanout.worker_steps import Delivery, Done, Failed, HandBack
from fanfold.follows import follower_estimate, ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.ring_reader import EdgePage, Read
from fanfold.timeline.entries import Entry
from fanfold.timeline.posts import Post
from tests.stores import POST, ROW, Tables


class Ring(EdgesTable):
    """A publisher's followers by level, in the pages that the table would return."""

    def __init__(self, *levels: list[str]) -> None:
        self.levels = [sorted(edges) for edges in levels]
        self.reads: list[tuple[int, int]] = []  # level and limit of each

    def page(self, publisher_id: str, read: Read, limit: int | None = None) -> EdgePage:
        assert publisher_id == "ada"
        assert limit
        lo = max(read.after, ring.shard_start(read.shard, read.level))
        hi = min(read.hi, ring.shard_start(read.shard + 1, read.level))
        found = [edge for edge in self.levels[read.level] if lo < edge < hi]
        self.reads.append((read.level, limit))
        return EdgePage(found[:limit], more=len(found) > limit)


@dataclass
class Loop:
    """Writes everything, unless told how a delivery ends."""

    end: Done | HandBack | Failed | None = None
    deliveries: list[Delivery] = field(default_factory=list)

    def run(self, delivery: Delivery, entry: Entry) -> Done | HandBack | Failed:
        self.deliveries.append(delivery)
        assert delivery.edges is not None
        return self.end or Done(len(delivery.edges))


class Planner(Tables):
    """PLAN, over one row of the ledger and one publisher's followers."""

    def __init__(self, *levels: list[str]) -> None:
        super().__init__()
        self.ring = Ring(*levels)
        self.threads: Executor | None = None
        self.post: Post | None = POST
        self.loop = Loop()
        self.ledger.open(ROW)

    def find_with_followers(self, fanout_id: str, publisher_id: str) -> Found:
        assert publisher_id == "ada"
        page = self.ring.page("ada", follower_estimate.FIRST_READ, follower_estimate.SAMPLE_EDGES)
        return Found(self.ledger.get(fanout_id), self.post, len(self.ring.levels) - 1, page)

    def plan(self, *, redelivered: bool = False) -> Outcome:
        lookup: Any = self
        loop: Any = self.loop
        planning = Planning(lookup, self.ledger, self.ring, self.lanes, loop, self.threads)
        about: Any = {"publisher_id": "ada", "pace": Pace(1000), "stop_at": math.inf}
        return planning.plan("post-1", redelivered=redelivered, **about)

    def ask(self, at_ms: int) -> None:
        assert self.open.note_question(self.row, now_ms=at_ms)

    def at_its_update(
        self, meanwhile: Callable[[], object] = lambda: None, *, is_lost: bool = False
    ) -> None:
        """Let something happen before the next update; if its answer is lost, it is repeated."""
        plain = self.client.call

        def call(operation: str, request: Any) -> Any:
            if operation == "UpdateItem":
                self.client.call = plain
                meanwhile()
                if is_lost:
                    plain(operation, request)
            return plain(operation, request)

        self.client.call = call

    def plan_by_another(self) -> None:
        """And a worker makes progress a tenth of a second later."""
        at = "2026-11-20T18:00:00.900Z"
        assert self.ledger.plan(self.row, segments=1, followers=5, level=0, now=at)
        self.ledger.touch(self.row, now="2026-11-20T18:00:01.000Z")


def edges(followers: int) -> list[str]:
    return sorted(ring.edge(f"f-{each}") for each in range(followers))


def planner(followers: int) -> Planner:
    return Planner(edges(followers))


# One hop


POSITION = "8" + "0" * 15


@pytest.mark.parametrize("is_lost", [False, True])
def test_the_rest_of_what_is_not_written_in_time_goes_to_the_express_lane(is_lost: bool) -> None:
    worker = planner(100)
    worker.at_its_update(is_lost=is_lost)
    worker.loop.end = HandBack(POSITION, 60, True, ("1" + "0" * 15,))
    assert worker.plan() == Outcome("handed back", 60)
    row = worker.row
    assert (row.segments, row.followers, row.pending) == (1, 100, frozenset({0}))
    assert row.resume == {0: Resume(POSITION, 60, ("1" + "0" * 15,))}
    assert [each.content["position"] for each in worker.express.sent] == [POSITION]


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_completion_counts_once_where_the_fanout_is_planned_or_complete_already(
    is_lost: bool,
) -> None:
    worker = planner(7)
    if is_lost:
        worker.at_its_update(is_lost=True)
    else:
        worker.at_its_update(worker.plan_by_another)
    outcome = worker.plan()
    assert outcome[:2] == ("delivered", 7)
    # A completion whose answer was lost is not reported.
    assert (outcome.seconds is None) == is_lost
    assert (worker.row.delivered, worker.row.pending, worker.sent) == (7, frozenset(), [])


def test_who_completes_a_fanout_says_how_long_it_took_and_nobody_else_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: times.to_ms(ROW.accepted_at) + 4_500)
    assert planner(7).plan().seconds == planner(0).plan().seconds == 4.5
    assert planner(100_000).plan().seconds is None, "it is only planned"
    worker = planner(7)
    other, now = worker.ledger, ROW.accepted_at
    worker.at_its_update(lambda: other.complete_at_once("post-1", followers=7, now=now))
    assert worker.plan().seconds is None, "another worker has completed it"


@pytest.mark.parametrize(
    "post",
    [
        None,
        replace(POST, publisher_id="bea"),
        replace(POST, published_at="2026-11-20T19:00:00.123Z"),
        replace(POST, accepted_at="", deleted=True),  # before it came
    ],
)
def test_a_fanout_whose_post_was_never_stored_is_void_once_no_door_can_store_it(
    post: Post | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = planner(7)
    worker.post = post
    opened_ms = times.to_ms(ROW.accepted_at)
    worker.ask(opened_ms)
    for after_ms, what, state in [
        (VOID_MS - 1, "not stored", QUEUED),
        (VOID_MS, VOID, VOID),
        (VOID_MS, "void before", VOID),
    ]:
        monkeypatch.setattr(clock, "now_ms", lambda at=opened_ms + after_ms: at)
        assert worker.plan() == Outcome(what)
        assert worker.row.state == state
    assert (worker.loop.deliveries, worker.sent) == ([], [])


# Plans


def test_a_message_that_comes_again_is_one_segment_of_the_express_lane() -> None:
    worker = planner(1_000)
    worker.plan(redelivered=True)
    assert (worker.row.segments, worker.row.followers) == (1, 1_000)
    (message,) = worker.express.sent
    assert message.group == "ada"
    assert message.content == {
        "version": 1,
        "type": "segment.deliver",
        "fanout_id": "post-1",
        "segment": 0,
        "segments": 1,
        "position": "",
        "hops": 0,
    }
    assert (worker.loop.deliveries, worker.bulk.sent) == ([], [])


def test_many_segments_are_sent_on_threads_after_one_read() -> None:
    worker = planner(30_000)
    with ThreadPoolExecutor(2) as worker.threads:
        worker.plan()
    assert worker.ring.reads == [(0, 1_201)]
    assert len(worker.bulk.sent) == 8
    assert worker.bulk.threads is worker.threads


def test_followers_that_are_all_read_are_counted_even_beyond_the_sample() -> None:
    every = edges(1_400)
    worker = Planner(every[0::2], every[1::2])
    worker.plan()
    assert worker.row.followers == 1_400


def test_a_level_waits_for_the_others_while_they_are_sampled() -> None:
    """Edges beyond what all levels have reached do not count, and cost as much."""
    worker = Planner(edges(30_000), [], [], [], [], [], [])
    worker.plan()
    assert [level for level, _ in worker.ring.reads].count(0) == 1


def test_a_worker_that_loses_the_race_to_plan_sends_nothing() -> None:
    worker = planner(5)
    worker.at_its_update(worker.plan_by_another)
    worker.plan(redelivered=True)
    assert not worker.sent


def test_another_workers_progress_in_the_same_millisecond_is_not_taken_for_ones_own_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: times.to_ms("2026-11-20T18:00:01.000Z"))
    worker = planner(5)
    worker.at_its_update(worker.plan_by_another)
    worker.plan(redelivered=True)
    assert not worker.sent


@pytest.mark.parametrize("is_its_own", [False, True])
def test_of_plans_for_a_question_of_a_clock_ahead_the_one_that_was_made_is_sent(
    is_its_own: bool,
) -> None:
    """All of them are sent no earlier than the question."""
    worker = planner(5)
    worker.ask(clock.now_ms() + 100_000)
    if is_its_own:
        worker.at_its_update(is_lost=True)
    else:
        worker.at_its_update(worker.plan_by_another)
    worker.plan(redelivered=True)
    assert len(worker.express.sent) == is_its_own


@pytest.mark.parametrize(
    ("state", "redelivered"), [(DELIVERING, False), (STALLED, False), (STALLED, True)]
)
def test_a_planned_fanout_is_left_alone(state: str, redelivered: bool) -> None:
    worker = planner(5)
    worker.plan_by_another()
    if state == STALLED:
        worker.open.give_up(worker.row, now_ms=clock.now_ms())
    row = worker.row
    worker.plan(redelivered=redelivered)
    assert (row.state, worker.row) == (state, row)
    assert (worker.loop.deliveries, worker.sent) == ([], [])
