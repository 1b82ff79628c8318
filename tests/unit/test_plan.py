"""PLAN's decisions, over a ledger and a ring of followers in memory."""

from __future__ import annotations

import math
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fanfold import clock, times
from fanfold.fanout.backlog import Resume
from fanfold.fanout.deliver import Outcome
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import planned_at
from fanfold.fanout.lookup import Found
from fanfold.fanout.pacing import Pace
from fanfold.fanout.plan import Planning
from fanfold.fanout.policy import Delivery, Done, Failed, HandBack
from fanfold.fanout.row import (
    COMPLETE,
    DELIVERING,
    EXPIRED,
    QUEUED,
    STALLED,
    VOID,
    VOID_MS,
    Fanout,
)
from fanfold.follows import density, ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.ring_reader import Page, Read
from fanfold.messages import Message
from fanfold.timeline.entries import Entry
from fanfold.timeline.posts import Post
from tests.unit.stores import POST, ROW, Queue


@dataclass
class Ledger:
    row: Fanout = ROW
    loses_answer: bool = False  # boto3's retry finds the fan-out planned
    is_planned_by_another: bool = False  # just before

    def get(self, fanout_id: str) -> Fanout:
        assert fanout_id == self.row.fanout_id
        return self.row

    def plan(
        self,
        fanout: Fanout,
        *,
        segments: int,
        followers: int,
        level: int,
        resume: dict[int, Resume],
        now: str,
    ) -> bool:
        assert fanout.fanout_id == self.row.fanout_id
        if self.is_planned_by_another:
            sent_at = planned_at(self.row, "2026-11-20T18:00:00.900Z")
            self.row = planned(segments, changed_at="2026-11-20T18:00:01.000Z", sent_at=sent_at)
        if not self.row.awaits_plan:
            return False
        self.row = replace(
            self.row,
            state=DELIVERING,
            segments=segments,
            followers=followers,
            level=level,
            pending=frozenset(range(segments)),
            resume=resume,
            changed_at=now,
            sent_at=planned_at(fanout, now),
        )
        return not self.loses_answer

    def expire(self, fanout: Fanout, *, now: str) -> bool:
        self.row = replace(self.row, state=EXPIRED)
        return True

    def void(self, fanout: Fanout, *, now: str) -> bool:
        assert fanout == self.row
        self.row = replace(fanout, state=VOID)
        return True

    def complete_at_once(self, fanout_id: str, *, followers: int, now: str) -> bool:
        if self.is_planned_by_another:
            self.row = planned(1, changed_at="2026-11-20T18:00:01.000Z")
        if not self.row.awaits_plan:
            return False
        self.row = replace(
            self.row,
            state=COMPLETE,
            segments=min(1, followers),
            followers=followers,
            delivered=followers,
        )
        return not self.loses_answer

    def finish_segment(self, fanout: Fanout, segment: int, *, written: int, now: str) -> None:
        assert segment in self.row.pending
        self.row = replace(self.row, state=COMPLETE, pending=frozenset(), delivered=written)


class Ring(EdgesTable):
    """A publisher's followers by level, in the pages that the table would return."""

    def __init__(self, *levels: list[str]) -> None:
        self.levels = [sorted(edges) for edges in levels]
        self.reads: list[tuple[int, int]] = []  # level and limit of each

    def page(self, publisher_id: str, read: Read, limit: int | None = None) -> Page:
        assert publisher_id == "ada"
        assert limit
        lo = max(read.after, ring.shard_start(read.shard, read.level))
        hi = min(read.hi, ring.shard_start(read.shard + 1, read.level))
        found = [edge for edge in self.levels[read.level] if lo < edge < hi]
        self.reads.append((read.level, limit))
        return Page(found[:limit], more=len(found) > limit)


@dataclass
class Lookup:
    """A fan-out, its post, and the first page of a ring whose level never changes."""

    ledger: Ledger
    ring: Ring
    post: Post | None = POST

    def find_with_followers(self, fanout_id: str, publisher_id: str) -> Found:
        assert publisher_id == "ada"
        row = self.ledger.get(fanout_id)
        page = self.ring.page("ada", density.FIRST_READ, density.SAMPLE_EDGES)
        return Found(row, self.post, len(self.ring.levels) - 1, page)


@dataclass
class Loop:
    """Writes everything, unless told how a delivery ends."""

    end: Done | HandBack | Failed | None = None
    deliveries: list[Delivery] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def run(self, delivery: Delivery, entry: Entry) -> Done | HandBack | Failed:
        self.deliveries.append(delivery)
        self.entries.append(entry)
        assert delivery.edges is not None
        return self.end or Done(len(delivery.edges))


@dataclass
class Planner:
    """PLAN, over one row of the ledger and one publisher's followers."""

    ledger: Ledger
    ring: Ring
    express: Queue = field(default_factory=Queue)
    bulk: Queue = field(default_factory=Queue)
    threads: Executor | None = None
    post: Post | None = POST
    loop: Loop = field(default_factory=Loop)
    pace: Pace = field(default_factory=lambda: Pace(1000))

    def plan(self, *, redelivered: bool = False) -> Outcome:
        planning = Planning(
            Lookup(self.ledger, self.ring, self.post),  # type: ignore[arg-type]
            self.ledger,  # type: ignore[arg-type]
            self.ring,
            Lanes(self.express, self.bulk),  # type: ignore[arg-type]
            self.loop,  # type: ignore[arg-type]
            self.threads,
        )
        return planning.plan(
            "post-1",
            publisher_id="ada",
            pace=self.pace,
            redelivered=redelivered,
            stop_at=math.inf,
        )

    @property
    def row(self) -> Fanout:
        return self.ledger.row

    @property
    def sent(self) -> list[Message]:
        return self.express.sent + self.bulk.sent


def edges(followers: int) -> list[str]:
    return sorted(ring.edge(f"f-{each}") for each in range(followers))


def planner(followers: int, row: Fanout = ROW, **races: Any) -> Planner:
    return Planner(Ledger(row, **races), Ring(edges(followers)))


def planned(segments: int, **changed: Any) -> Fanout:
    pending = changed.pop("pending", frozenset(range(segments)))
    return replace(ROW, **{"state": DELIVERING, **changed}, segments=segments, pending=pending)


# One hop


@pytest.mark.parametrize("followers", [1, 1_199])
def test_followers_that_fit_the_sample_get_the_post_at_once(followers: int) -> None:
    worker = planner(followers)
    assert worker.plan() == Outcome("delivered", followers)
    row = worker.row
    assert (row.state, row.segments, row.followers) == (COMPLETE, 1, followers)
    assert (row.delivered, worker.sent) == (followers, [])
    (delivery,) = worker.loop.deliveries
    assert delivery.edges == edges(followers)
    assert delivery.pace is worker.pace
    assert worker.loop.entries == [Entry(ROW.sort_key, "ada", 1_900_000_000)]
    assert len(worker.ring.reads) == 1


POSITION = "8" + "0" * 15


@pytest.mark.parametrize("loses_answer", [False, True])
def test_the_rest_of_what_is_not_written_in_time_goes_to_the_express_lane(
    loses_answer: bool,
) -> None:
    worker = planner(100, loses_answer=loses_answer)
    worker.loop.end = HandBack(POSITION, 60, True, ("1" + "0" * 15,))
    assert worker.plan() == Outcome("handed back", 60)
    resume = {0: Resume(POSITION, 60, ("1" + "0" * 15,))}
    assert worker.row == replace(
        planned(1, followers=100, resume=resume),
        changed_at=worker.row.changed_at,
        sent_at=worker.row.sent_at,
    )
    assert [each.content["position"] for each in worker.express.sent] == [POSITION]


@pytest.mark.parametrize("race", ["is_planned_by_another", "loses_answer"])
def test_a_completion_counts_once_where_the_fanout_is_planned_or_complete_already(
    race: str,
) -> None:
    races: Any = {race: True}
    worker = planner(7, **races)
    assert worker.plan() == Outcome("delivered", 7)
    assert (worker.row.state, worker.row.delivered, worker.sent) == (COMPLETE, 7, [])


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
    worker.ledger.row = replace(ROW, changed_at=ROW.accepted_at, asked_at=opened_ms)
    for after_ms, what, state in [
        (VOID_MS - 1, "not stored", QUEUED),
        (VOID_MS, VOID, VOID),
        (VOID_MS, "void before", VOID),
    ]:
        monkeypatch.setattr(clock, "now_ms", lambda at=opened_ms + after_ms: at)
        assert worker.plan() == Outcome(what)
        assert worker.row.state == state
    assert not worker.loop.deliveries
    assert not worker.express.sent


def test_a_post_that_was_retracted_before_sweep_asks_is_left_to_the_lane() -> None:
    worker = planner(7, replace(ROW, asked_at=1))
    worker.post = replace(POST, deleted=True)
    assert worker.plan() == Outcome("planned", 0)
    assert (worker.loop.deliveries, len(worker.express.sent)) == ([], 1)


# Plans


def test_a_message_that_comes_again_is_one_segment_of_the_express_lane() -> None:
    worker = planner(1_000)
    worker.plan(redelivered=True)
    assert not worker.loop.deliveries
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
    assert not worker.bulk.sent


@pytest.mark.parametrize("redelivered", [False, True])
def test_many_segments_are_sent_on_threads(redelivered: bool) -> None:
    worker = planner(30_000, planned(8) if redelivered else ROW)
    with ThreadPoolExecutor(2) as worker.threads:
        worker.plan(redelivered=redelivered)
    assert len(worker.bulk.sent) == 8
    assert worker.bulk.threads is worker.threads


def test_followers_that_are_all_read_are_counted_even_beyond_the_sample() -> None:
    every = edges(1_400)
    worker = Planner(Ledger(), Ring(every[0::2], every[1::2]))
    worker.plan()
    assert worker.row.followers == 1_400


def test_a_level_waits_for_the_others_while_they_are_sampled() -> None:
    """Edges beyond what all levels have reached do not count, and cost as much."""
    worker = Planner(Ledger(), Ring(edges(30_000), [], [], [], [], [], []))
    worker.plan()
    assert [level for level, _ in worker.ring.reads].count(0) == 1


def test_a_worker_that_loses_the_race_to_plan_sends_nothing() -> None:
    worker = planner(5, is_planned_by_another=True)
    worker.plan(redelivered=True)
    assert not worker.sent


def test_another_workers_progress_in_the_same_millisecond_is_not_taken_for_ones_own_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: times.to_ms("2026-11-20T18:00:01.000Z"))
    worker = planner(5, is_planned_by_another=True)  # whose worker made progress just then
    worker.plan(redelivered=True)
    assert not worker.sent


def test_anothers_plan_for_a_question_of_a_clock_ahead_is_not_taken_for_ones_own() -> None:
    row = replace(ROW, asked_at=clock.now_ms() + 1_000)  # both plans are sent no earlier
    worker = planner(5, row, is_planned_by_another=True)
    worker.plan(redelivered=True)
    assert not worker.sent


@pytest.mark.parametrize(
    ("state", "redelivered"),
    [(DELIVERING, False), (STALLED, False), (STALLED, True)],
)
def test_a_planned_fanout_is_left_alone(state: str, redelivered: bool) -> None:
    row = planned(4, state=state)
    worker = planner(5, row)
    worker.plan(redelivered=redelivered)
    assert worker.row == row
    assert not worker.sent


@pytest.mark.parametrize(("second", "state"), [(-1, DELIVERING), (0, EXPIRED)])
def test_a_fanout_whose_entries_nobody_would_see_ends_without_a_plan(
    monkeypatch: pytest.MonkeyPatch, second: int, state: str
) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: 1000 * (ROW.expires_at + second))
    worker = planner(5)
    worker.plan(redelivered=True)
    assert worker.row.state == state
    assert bool(worker.sent) is (state == DELIVERING)


def test_ones_own_plan_for_a_question_of_a_clock_ahead_is_sent_if_its_answer_is_lost() -> None:
    worker = planner(5, replace(ROW, asked_at=clock.now_ms() + 1_000), loses_answer=True)
    worker.plan(redelivered=True)
    assert len(worker.express.sent) == 1
