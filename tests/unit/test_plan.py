"""PLAN's decisions, over a ledger and a ring of followers in memory."""

from __future__ import annotations

import json
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fanfold.errors import BadInput
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import COMPLETE, DELIVERING, QUEUED, STALLED, Fanout
from fanfold.fanout.plan import Planning
from fanfold.fanout.segments import Resume
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
    """One row."""

    row: Fanout | None = ROW
    lost: bool = False  # another PLAN is always quicker
    is_told: bool = True  # else the first try's answer is lost, and the second finds it planned

    def get(self, fanout_id: str) -> Fanout | None:
        return self.row if self.row and self.row.fanout_id == fanout_id else None

    def plan(self, fanout_id: str, *, segments: int, followers: int, level: int, now: str) -> bool:
        assert self.row
        assert fanout_id == self.row.fanout_id
        if self.lost or not self.row.awaits_plan:
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
        return self.is_told

    def complete_without_followers(self, fanout_id: str, *, now: str) -> bool:
        assert self.row
        self.row = replace(self.row, state=COMPLETE)
        return True


class Ring(EdgesTable):
    """A publisher's followers, each at one level, in the pages that a store would read."""

    def __init__(self, *levels: list[str]) -> None:
        self.levels = [sorted(edges) for edges in levels]
        self.reads: list[tuple[int, int]] = []  # of which level, how many

    def page(self, publisher_id: str, read: Read, limit: int | None = None) -> Page:
        assert publisher_id == "ada"
        assert limit
        lo, hi = (
            ring.shard_start(read.shard, read.level),
            ring.shard_start(read.shard + 1, read.level),
        )
        found = [
            edge
            for edge in self.levels[read.level]
            if max(lo, read.after) < edge < min(hi, read.hi)
        ]
        self.reads.append((read.level, limit))
        return Page(found[:limit], more=len(found) > limit)


@dataclass
class PublishersTable:
    """One publisher's level; one that is raised while somebody else works is not this test's."""

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
class World:
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


def edges(followers: int) -> list[str]:
    return sorted(ring.edge(f"f-{each}") for each in range(followers))


def world(followers: int, row: Fanout | None = ROW) -> World:
    return World(Ledger(row), Ring(edges(followers)))


def planned(segments: int, **changed: Any) -> Fanout:
    pending = changed.pop("pending", frozenset(range(segments)))
    return replace(ROW, state=DELIVERING, segments=segments, pending=pending, **changed)


@pytest.mark.parametrize("followers", [1, 999, 1_000])
def test_a_fanout_that_fits_the_sample_is_one_segment_of_the_express_lane(followers: int) -> None:
    here = world(followers)
    here.plan()
    assert here.ledger.row
    assert (here.ledger.row.segments, here.ledger.row.followers) == (1, followers)
    (message,) = here.express.sent
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
    assert not here.bulk.sent


def test_a_big_fanout_is_estimated_from_one_read_and_cut_for_the_bulk_lane() -> None:
    here = world(30_000)
    here.plan()
    row = here.ledger.row
    assert row
    assert abs(row.followers / 30_000 - 1) < 0.13
    assert row.segments == 8
    assert here.ring.reads == [(0, 1_000)]
    assert [message.content["segment"] for message in here.bulk.sent] == list(range(8))
    assert {message.group for message in here.bulk.sent} == {"ada"}
    assert not here.express.sent


@pytest.mark.parametrize("redelivered", [False, True])
def test_many_segments_are_sent_on_threads_so_that_nobody_waits_behind_them(
    redelivered: bool,
) -> None:
    here = world(30_000, planned(8) if redelivered else ROW)
    with ThreadPoolExecutor(2) as here.threads:
        here.plan(redelivered=redelivered)
    assert len(here.bulk.sent) == 8
    assert here.bulk.threads is here.threads


@pytest.mark.parametrize("level", [1, 2, 5])
def test_followers_at_all_levels_are_counted_and_the_level_is_noted(level: int) -> None:
    every = edges(900)
    here = World(Ledger(), Ring(*(every[at :: level + 1] for at in range(level + 1))))
    here.plan()
    assert here.ledger.row
    assert (here.ledger.row.followers, here.ledger.row.level) == (900, level)


def test_a_follower_who_is_at_two_levels_is_counted_once() -> None:
    here = World(Ledger(), Ring(edges(500), edges(600)))
    here.plan()
    assert here.ledger.row
    assert here.ledger.row.followers == 600


@pytest.mark.parametrize("few_at", [0, 1])
def test_a_big_fanout_is_estimated_from_what_every_level_has_reached(few_at: int) -> None:
    """A level with few edges is read far ahead, and the other then tells nothing about there."""
    every = edges(30_000)
    levels = [every[10:], every[:10]]
    here = World(Ledger(), Ring(levels[few_at], levels[1 - few_at]))
    here.plan()
    assert here.ledger.row
    assert abs(here.ledger.row.followers / 30_000 - 1) < 0.13


def test_no_more_edges_are_read_for_an_estimate_than_a_page_of_each_shard_takes() -> None:
    every = edges(30_000)
    here = World(Ledger(), Ring(every[0::3], every[1::3], every[2::3]))
    here.plan()
    assert here.ledger.row
    assert abs(here.ledger.row.followers / 30_000 - 1) < 0.13
    assert len(here.ring.reads) <= 6


def test_nobody_to_deliver_to_is_complete_and_sends_nothing() -> None:
    here = world(0)
    here.plan()
    assert here.ledger.row
    assert here.ledger.row.state == COMPLETE
    assert not here.express.sent + here.bulk.sent


def test_who_loses_the_race_to_plan_sends_nothing() -> None:
    here = world(5)
    here.ledger.lost = True
    here.plan()
    assert not here.express.sent + here.bulk.sent


def test_a_fanout_that_the_ledger_does_not_know_is_bad_input() -> None:
    with pytest.raises(BadInput, match="knows no fan-out 'post-1'"):
        world(5, row=None).plan()


def test_a_second_order_for_a_planned_fanout_sends_nothing() -> None:
    here = world(5, planned(4))
    here.plan()
    assert not here.express.sent + here.bulk.sent


def test_a_redelivered_order_sends_what_is_pending_from_where_it_is_delivered_to() -> None:
    row = planned(4, pending=frozenset({3, 1}), resume={3: Resume("d" * 16, 7)})
    here = world(5, row)
    here.plan(redelivered=True)
    sent = [(each.content["segment"], each.content["position"]) for each in here.bulk.sent]
    assert sent == [(1, ""), (3, "d" * 16)]
    assert here.ledger.row == row


@pytest.mark.parametrize("redelivered", [True, False])
@pytest.mark.parametrize("state", [COMPLETE, STALLED])
def test_a_fanout_that_is_over_is_left_alone(state: str, redelivered: bool) -> None:
    row = replace(planned(4), state=state)
    here = world(5, row)
    here.plan(redelivered=redelivered)
    assert here.ledger.row == row
    assert not here.express.sent + here.bulk.sent


@pytest.mark.parametrize("state", [QUEUED, STALLED])
def test_a_fanout_without_a_plan_is_planned_however_late(state: str) -> None:
    here = world(5, replace(ROW, state=state))
    here.plan()
    assert here.ledger.row
    assert here.ledger.row.state == DELIVERING
    assert len(here.express.sent) == 1


def test_a_message_of_a_segment_is_far_below_what_a_queue_takes_at_once() -> None:
    row = replace(planned(4096), publisher_id="a" * 128, fanout_id="b" * 128)
    lanes: Any = Lanes(Lane(), Lane())  # type: ignore[arg-type]
    lanes.send_pending(row)
    assert len(lanes.bulk.sent) == 4096
    assert max(len(json.dumps(each.content)) for each in lanes.bulk.sent) < 1024


def test_a_plan_whose_answer_was_lost_is_sent_all_the_same() -> None:
    here = world(3)
    here.ledger.is_told = False
    here.plan()
    assert len(here.express.sent) == 1
