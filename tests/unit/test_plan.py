"""PLAN's decisions, over a ledger and a ring of followers in memory."""

from __future__ import annotations

import json
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fanfold import clock
from fanfold.errors import BadInput
from fanfold.fanout.backlog import Resume
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.plan import Planning
from fanfold.fanout.row import COMPLETE, DELIVERING, ENDED, EXPIRED, QUEUED, STALLED, Fanout
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.ring_reader import Page, Read
from fanfold.follows.sharding import Shards
from fanfold.messages import Message

ROW = Fanout(
    fanout_id="post-1",
    publisher_id="ada",
    sort_key="2026-11-20T18:00:00.123Z#post-1",
    accepted_at="2026-11-20T18:00:00.123Z",
    expires_at=1_900_000_000,
)


@dataclass
class Ledger:
    row: Fanout | None = ROW
    is_too_late: bool = False  # another PLAN is always quicker
    loses_answer: bool = False  # boto3's retry finds the fan-out planned
    is_planned_by_another: bool = False  # just before

    def get(self, fanout_id: str) -> Fanout | None:
        return self.row if self.row and self.row.fanout_id == fanout_id else None

    def plan(self, fanout: Fanout, *, segments: int, followers: int, level: int, now: str) -> bool:
        assert self.row
        assert fanout.fanout_id == self.row.fanout_id
        if self.is_planned_by_another:
            self.row = planned(segments, changed_at="2026-11-20T18:00:01.000Z")
        if self.is_too_late or not self.row.awaits_plan:
            return False
        self.row = replace(
            self.row,
            state=DELIVERING,
            segments=segments,
            followers=followers,
            level=level,
            pending=frozenset(range(segments)),
            changed_at=now,
        )
        return not self.loses_answer

    def expire(self, fanout: Fanout, *, now: str) -> bool:
        assert self.row
        self.row = replace(self.row, state=EXPIRED)
        return True

    def complete_without_followers(self, fanout_id: str, *, now: str) -> bool:
        assert self.row
        self.row = replace(self.row, state=COMPLETE)
        return True


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
class PublishersTable:
    """One publisher's level, which never changes."""

    level: int

    def shards(self, publisher_id: str, *, consistent: bool = True) -> Shards:
        assert (publisher_id, consistent) == ("ada", True)
        return Shards(level=self.level)


@dataclass
class Lane:
    """A queue that keeps what is sent."""

    sent: list[Message] = field(default_factory=list)
    threads: Executor | None = None

    def send(self, *messages: Message, threads: Executor | None = None) -> None:
        self.sent += messages
        self.threads = threads


@dataclass
class Planner:
    """PLAN, over one row of the ledger and one publisher's followers."""

    ledger: Ledger
    ring: Ring
    express: Lane = field(default_factory=Lane)
    bulk: Lane = field(default_factory=Lane)
    threads: Executor | None = None

    def plan(self, *, redelivered: bool = False) -> None:
        planning: Any = Planning(
            self.ledger,  # type: ignore[arg-type]
            self.ring,
            PublishersTable(len(self.ring.levels) - 1),  # type: ignore[arg-type]
            Lanes(self.express, self.bulk),  # type: ignore[arg-type]
            self.threads,
        )
        planning.plan("post-1", redelivered=redelivered)

    @property
    def row(self) -> Fanout:
        assert self.ledger.row
        return self.ledger.row

    @property
    def sent(self) -> list[Message]:
        return self.express.sent + self.bulk.sent


def edges(followers: int) -> list[str]:
    return sorted(ring.edge(f"f-{each}") for each in range(followers))


def planner(followers: int, row: Fanout | None = ROW, **races: Any) -> Planner:
    return Planner(Ledger(row, **races), Ring(edges(followers)))


def planned(segments: int, **changed: Any) -> Fanout:
    pending = changed.pop("pending", frozenset(range(segments)))
    return replace(ROW, **{"state": DELIVERING, **changed}, segments=segments, pending=pending)


@pytest.mark.parametrize("followers", [1, 999, 1_000])
def test_a_fanout_that_fits_the_sample_is_one_segment_of_the_express_lane(followers: int) -> None:
    worker = planner(followers)
    worker.plan()
    assert (worker.row.segments, worker.row.followers) == (1, followers)
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


def test_a_big_fanout_is_estimated_from_one_read_and_cut_for_the_bulk_lane() -> None:
    worker = planner(30_000)
    worker.plan()
    assert abs(worker.row.followers / 30_000 - 1) < 0.13
    assert worker.row.segments == 8
    assert worker.ring.reads == [(0, 1_200)]
    assert [message.content["segment"] for message in worker.bulk.sent] == list(range(8))
    assert {message.group for message in worker.bulk.sent} == {"ada"}
    assert not worker.express.sent


@pytest.mark.parametrize("redelivered", [False, True])
def test_many_segments_are_sent_on_threads(redelivered: bool) -> None:
    worker = planner(30_000, planned(8) if redelivered else ROW)
    with ThreadPoolExecutor(2) as worker.threads:
        worker.plan(redelivered=redelivered)
    assert len(worker.bulk.sent) == 8
    assert worker.bulk.threads is worker.threads


@pytest.mark.parametrize("level", [1, 2, 5])
def test_followers_at_all_levels_are_counted_and_the_level_is_stored(level: int) -> None:
    every = edges(900)
    worker = Planner(Ledger(), Ring(*(every[at :: level + 1] for at in range(level + 1))))
    worker.plan()
    assert (worker.row.followers, worker.row.level) == (900, level)


def test_a_follower_at_two_levels_is_counted_once() -> None:
    worker = Planner(Ledger(), Ring(edges(500), edges(600)))
    worker.plan()
    assert worker.row.followers == 600


EVERY = edges(30_000)


@pytest.mark.parametrize(
    "levels",
    [
        # A level with few edges is read far ahead of the other, which says nothing about that part.
        [EVERY[10:], EVERY[:10]],
        [EVERY[:10], EVERY[10:]],
        [EVERY[0::3], EVERY[1::3], EVERY[2::3]],
    ],
)
def test_a_big_fanout_is_estimated_from_what_every_level_has_reached(
    levels: list[list[str]],
) -> None:
    worker = Planner(Ledger(), Ring(*levels))
    worker.plan()
    assert abs(worker.row.followers / 30_000 - 1) < 0.13
    assert len(worker.ring.reads) <= 6


def test_followers_that_are_all_read_are_counted_even_beyond_the_sample() -> None:
    every = edges(1_400)
    worker = Planner(Ledger(), Ring(every[0::2], every[1::2]))
    worker.plan()
    assert worker.row.followers == 1_400


def test_a_level_waits_for_the_others_while_they_are_sampled() -> None:
    """Edges beyond what all levels have reached do not count, and cost as much."""
    levels: list[list[str]] = [EVERY, [], [], [], [], [], []]
    worker = Planner(Ledger(), Ring(*levels))
    worker.plan()
    assert [level for level, _ in worker.ring.reads].count(0) == 1


def test_a_fanout_without_followers_is_complete_and_sends_nothing() -> None:
    worker = planner(0)
    worker.plan()
    assert worker.row.state == COMPLETE
    assert not worker.sent


@pytest.mark.parametrize("race", ["is_too_late", "is_planned_by_another"])
def test_a_worker_that_loses_the_race_to_plan_sends_nothing(race: str) -> None:
    races: Any = {race: True}
    worker = planner(5, **races)
    worker.plan()
    assert not worker.sent


def test_an_unknown_fanout_is_bad_input() -> None:
    with pytest.raises(BadInput, match="knows no fan-out 'post-1'"):
        planner(5, row=None).plan()


def test_a_redelivered_command_sends_pending_segments_from_their_stored_positions() -> None:
    row = planned(4, pending=frozenset({3, 1}), resume={3: Resume("d" * 16, 7)})
    worker = planner(5, row)
    worker.plan(redelivered=True)
    sent = [(each.content["segment"], each.content["position"]) for each in worker.bulk.sent]
    assert sent == [(1, ""), (3, "d" * 16)]
    assert worker.row == row


@pytest.mark.parametrize(
    ("state", "redelivered"),
    [
        (DELIVERING, False),
        (COMPLETE, False),
        (COMPLETE, True),
        (STALLED, False),
        (STALLED, True),
    ],
)
def test_a_planned_fanout_is_left_alone(state: str, redelivered: bool) -> None:
    row = planned(4, state=state)
    worker = planner(5, row)
    worker.plan(redelivered=redelivered)
    assert worker.row == row
    assert not worker.sent


@pytest.mark.parametrize(("second", "state"), [(-1, DELIVERING), (0, EXPIRED), (1, EXPIRED)])
def test_a_fanout_whose_entries_nobody_would_see_ends_without_a_plan(
    monkeypatch: pytest.MonkeyPatch, second: int, state: str
) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: 1000 * (ROW.expires_at + second))
    worker = planner(5)
    worker.plan()
    assert worker.row.state == state
    assert bool(worker.sent) is (state == DELIVERING)


@pytest.mark.parametrize("state", sorted(ENDED))
def test_a_command_for_a_fanout_that_has_ended_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: 1000 * ROW.expires_at)
    worker = planner(5, replace(ROW, state=state))
    worker.plan(redelivered=True)
    assert (worker.row.state, worker.sent) == (state, [])


@pytest.mark.parametrize("state", [QUEUED, STALLED])
@pytest.mark.parametrize("loses_answer", [False, True])
def test_a_fanout_without_a_plan_is_planned_and_sent(state: str, loses_answer: bool) -> None:
    worker = planner(5, replace(ROW, state=state), loses_answer=loses_answer)
    worker.plan()
    assert worker.row.state == DELIVERING
    assert len(worker.express.sent) == 1


def test_a_segments_message_is_far_smaller_than_a_tenth_of_a_batch_may_be() -> None:
    row = replace(planned(4096), publisher_id="a" * 128, fanout_id="b" * 128)
    lanes: Any = Lanes(Lane(), Lane())  # type: ignore[arg-type]
    lanes.send_pending(row)
    assert len(lanes.bulk.sent) == 4096
    assert max(len(json.dumps(each.content)) for each in lanes.bulk.sent) < 1024
