"""DELIVER's decisions around the policy: what to begin, what to note, what to send on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fanfold import clock
from fanfold.errors import BadInput, Undeliverable
from fanfold.fanout import deliver
from fanfold.fanout.deliver import MAX_HOPS, Delivering, Outcome
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import COMPLETE, DELIVERING, STALLED, Fanout
from fanfold.fanout.pacing import Pace
from fanfold.fanout.policy import Delivery, Done, Failed, HandBack, max_stragglers_of
from fanfold.fanout.segments import Resume
from fanfold.follows import ring
from fanfold.follows.sharding import Shards
from fanfold.messages import DeliverSegment, Message
from fanfold.timeline.entries import Entry

ROW = Fanout(
    fanout_id="post-1",
    publisher_id="ada",
    sort_key="2026-11-20T18:00:00.123Z#post-1",
    accepted_at="2026-11-20T18:00:00.123Z",
    expires_at=1_900_000_000,
    state=DELIVERING,
    segments=4,
    pending=frozenset({0, 1, 2, 3}),
)
ORDER = DeliverSegment(fanout_id="post-1", segment=1, segments=4)
PART = ring.segment_range(1, 4)


@dataclass
class Ledger:
    """One row; `calls` tells what was done to it, in order, together with the lanes."""

    row: Fanout | None
    calls: list[Any]
    further: bool = False  # another worker is further on

    def get(self, fanout_id: str) -> Fanout | None:
        return self.row

    def finish_segment(
        self, fanout: Fanout, segment: int, *, written: int, now: str
    ) -> Fanout | None:
        self.calls.append(("finish", segment, written))
        assert self.row
        if segment not in self.row.pending:
            return None
        self.row = replace(self.row, pending=self.row.pending - {segment})
        return self.row

    def complete_if_delivered(self, fanout_id: str, *, now: str) -> bool:
        self.calls.append(("complete",))
        return True

    def touch(self, fanout_id: str, *, now: str) -> None:
        self.calls.append(("touch",))

    def store_resume(self, fanout_id: str, segment: int, resume: Resume, *, now: str) -> bool:
        self.calls.append(("resume", segment, resume))
        return not self.further


@dataclass
class Lane:
    calls: list[Any]
    name: str

    def send(self, *messages: Message) -> None:
        self.calls += [(self.name, message) for message in messages]


@dataclass
class Posts:
    deleted: bool = False

    def is_deleted(self, ref_id: str) -> bool:
        return self.deleted


@dataclass
class PublishersTable:
    level: int = 0

    def shards(self, publisher_id: str, *, consistent: bool = True) -> Shards:
        assert (publisher_id, consistent) == ("ada", True)
        return Shards(level=self.level)


@dataclass
class Transport:
    """Stands for a delivery that ends as the test says; keeps what it was told to deliver."""

    end: Done | HandBack | Failed
    told: list[tuple[Delivery, Entry]] = field(default_factory=list)


@pytest.fixture(autouse=True)
def no_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(delivery: Delivery, transport: Transport, entry: Entry) -> Done | HandBack | Failed:
        transport.told.append((delivery, entry))
        return transport.end

    monkeypatch.setattr(deliver, "run", run)


class World:
    def __init__(self, end: Done | HandBack | Failed, row: Fanout | None = ROW) -> None:
        self.calls: list[Any] = []
        self.ledger = Ledger(row, self.calls)
        self.posts = Posts()
        self.publishers = PublishersTable()
        self.transport = Transport(end)
        self.pace = Pace(1000)
        self.lanes: Any = Lanes(Lane(self.calls, "express"), Lane(self.calls, "bulk"))  # type: ignore[arg-type]

    def deliver(self, order: DeliverSegment = ORDER, *, redelivered: bool = False) -> Outcome:
        delivering: Any = Delivering(
            self.ledger,  # type: ignore[arg-type]
            self.posts,  # type: ignore[arg-type]
            self.publishers,  # type: ignore[arg-type]
            self.lanes,
            self.transport,  # type: ignore[arg-type]
        )
        outcome: Outcome = delivering.deliver(
            order, pace=self.pace, redelivered=redelivered, stop_at=100.0
        )
        return outcome

    @property
    def sent(self) -> list[Message]:
        return [call[1] for call in self.calls if call[0] in ("express", "bulk")]


def resumed(position: str, written: int, *stragglers: str) -> Fanout:
    return replace(ROW, resume={1: Resume(position, written, stragglers)})


def test_a_delivered_segment_is_taken_off_with_its_count() -> None:
    world = World(Done(7))
    assert world.deliver() == Outcome("delivered", 7)
    assert world.calls == [("finish", 1, 7)]
    ((delivery, entry),) = world.transport.told
    assert (delivery.start, delivery.hi, delivery.stragglers) == (PART.lo, PART.hi, ())
    assert (delivery.already, delivery.stop_at) == (0, 100.0)
    assert entry == Entry(ROW.sort_key, "ada", 1_900_000_000)


@pytest.mark.parametrize(
    ("planned", "now", "read"), [(0, 0, 0), (2, 2, 2), (1, 3, 3), (0, 1, 1), (2, 0, 2)]
)
def test_followers_are_read_up_to_the_higher_of_the_levels_planned_and_now(
    planned: int, now: int, read: int
) -> None:
    world = World(Done(7), replace(ROW, level=planned))
    world.publishers.level = now
    world.deliver()
    ((delivery, _),) = world.transport.told
    assert delivery.level == read


def test_a_worker_keeps_to_the_pace_that_it_has_learnt() -> None:
    world = World(Done(7))
    world.deliver()
    world.deliver()
    for delivery, _ in world.transport.told:
        assert delivery.pace is world.pace


@pytest.mark.parametrize("segments", [1, 4, 512, 4096])
def test_a_segment_may_leave_behind_so_many_that_the_ledger_holds_those_of_all(
    segments: int,
) -> None:
    world = World(Done(7), replace(ROW, segments=segments, pending=frozenset({0, 1})))
    world.deliver(replace(ORDER, segment=0, segments=segments))
    ((delivery, _),) = world.transport.told
    assert delivery.max_stragglers == max_stragglers_of(segments)


def test_the_last_segment_completes_the_fanout() -> None:
    world = World(Done(7), replace(ROW, pending=frozenset({1})))
    world.deliver()
    assert world.calls == [("finish", 1, 7), ("complete",)]


def test_a_segment_that_is_not_pending_is_not_delivered_again() -> None:
    world = World(Done(7), replace(ROW, pending=frozenset({0})))
    assert world.deliver() == Outcome("not pending", 0)
    assert not world.transport.told
    assert not world.calls


def test_a_segment_that_is_not_pending_still_completes_what_its_last_worker_left() -> None:
    world = World(Done(7), replace(ROW, pending=frozenset()))
    world.deliver()
    assert world.calls == [("complete",)]


def test_a_complete_fanout_is_left_alone() -> None:
    world = World(Done(7), replace(ROW, pending=frozenset(), state=COMPLETE))
    world.deliver()
    assert not world.calls


def test_a_worker_that_finished_second_looks_whether_the_fanout_is_complete() -> None:
    world = World(Done(7), replace(ROW, pending=frozenset({1})))
    plain = world.ledger.finish_segment

    def taken(*args: Any, **kwargs: Any) -> None:
        plain(*args, **kwargs)  # by another worker, just before

    world.ledger.finish_segment = taken  # type: ignore[method-assign,assignment]
    world.deliver()
    assert ("complete",) in world.calls


def test_a_deleted_post_is_delivered_no_further_and_counts_what_was() -> None:
    world = World(Done(7), resumed("5" * 16, 3))
    world.posts.deleted = True
    assert world.deliver(replace(ORDER, position="5" * 16)) == Outcome("post deleted")
    assert world.calls == [("finish", 1, 3)]
    assert not world.transport.told


def test_a_segment_is_continued_where_the_ledger_says() -> None:
    world = World(Done(9), resumed("5" * 16, 4))
    order = replace(ORDER, position="5" * 16)
    assert world.deliver(order) == Outcome("delivered", 5)
    ((delivery, _),) = world.transport.told
    assert (delivery.start, delivery.already) == ("5" * 16, 4)
    assert world.calls == [("finish", 1, 9)]


def test_followers_who_were_left_behind_are_delivered_to_with_the_rest() -> None:
    late = ("41" * 8, "42" * 8)
    world = World(Done(9), resumed(PART.hi, 7, *late))
    assert world.deliver(replace(ORDER, position=PART.hi)) == Outcome("delivered", 2)
    ((delivery, _),) = world.transport.told
    assert (delivery.start, delivery.already, delivery.stragglers) == (PART.hi, 7, late)


@pytest.mark.parametrize("position", ["", "4" * 16])
def test_a_message_behind_the_ledger_is_dropped_unless_it_is_redelivered(position: str) -> None:
    order = replace(ORDER, position=position)
    world = World(Done(9), resumed("5" * 16, 4))
    assert world.deliver(order) == Outcome("behind")
    assert not world.transport.told
    assert world.deliver(order, redelivered=True) == Outcome("delivered", 5)


def test_a_message_behind_the_ledger_takes_over_what_has_stalled() -> None:
    world = World(Done(9), replace(resumed("5" * 16, 4), state=STALLED))
    assert world.deliver(ORDER) == Outcome("delivered", 5)


def test_a_message_ahead_of_the_ledger_leaves_nothing_out() -> None:
    world = World(Done(9))
    world.deliver(replace(ORDER, position="7" * 16))
    ((delivery, _),) = world.transport.told
    assert delivery.start == PART.lo


@pytest.mark.parametrize(
    "order",
    [
        replace(ORDER, segments=8),
        replace(ORDER, segments=1, segment=0),
        replace(ORDER, segment=4),
    ],
)
def test_an_order_that_is_not_in_the_plan_is_bad_input(order: DeliverSegment) -> None:
    with pytest.raises(BadInput, match="not in the plan of 'post-1', which has 4"):
        World(Done(1)).deliver(order)


def test_an_order_for_a_fanout_without_a_plan_is_bad_input() -> None:
    row = replace(ROW, segments=0, pending=frozenset())
    with pytest.raises(BadInput, match="not in the plan"):
        World(Done(1), row).deliver(replace(ORDER, segment=0, segments=0))


def test_an_order_for_an_unknown_fanout_is_bad_input() -> None:
    with pytest.raises(BadInput, match="knows no fan-out 'post-1'"):
        World(Done(1), None).deliver()


def test_a_failure_is_raised_and_nothing_is_noted() -> None:
    class Refused(Exception):
        pass

    world = World(Failed(Refused()))
    with pytest.raises(Refused):
        world.deliver()
    assert not world.calls


# Hand-backs


@pytest.fixture
def chance(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    return lambda value: monkeypatch.setattr(clock, "chance", lambda: value)


def test_a_hand_back_is_noted_in_the_ledger_before_the_rest_is_sent() -> None:
    world = World(HandBack("5" * 16, 12, progress=True, stragglers=("41" * 8,)))
    assert world.deliver(replace(ORDER, hops=3)) == Outcome("handed back", 12)
    (noted, (lane, message)) = world.calls
    assert noted == ("resume", 1, Resume("5" * 16, 12, ("41" * 8,)))
    assert lane == "bulk"
    assert message.group == "ada"
    assert DeliverSegment.from_content(message.content) == replace(
        ORDER, position="5" * 16, hops=0
    ), "hops count only without progress"


def test_the_rest_of_a_single_segment_stays_in_the_express_lane() -> None:
    row = replace(ROW, segments=1, pending=frozenset({0}))
    world = World(HandBack("5" * 16, 12, progress=True), row)
    world.deliver(replace(ORDER, segment=0, segments=1))
    assert world.calls[-1][0] == "express"


def test_who_is_not_the_furthest_sends_nothing_on() -> None:
    world = World(HandBack("5" * 16, 12, progress=True))
    world.ledger.further = True
    world.deliver()
    assert not world.sent


def test_a_hand_back_without_progress_notes_that_it_was_at_it_and_counts_a_hop() -> None:
    world = World(HandBack(PART.lo, 0, progress=False))
    world.deliver(replace(ORDER, hops=3))
    (message,) = world.sent
    assert message.content["hops"] == 4
    assert world.calls == [("touch",), ("bulk", message)]


def test_too_many_hops_are_undeliverable() -> None:
    world = World(HandBack(PART.lo, 0, progress=False))
    world.deliver(replace(ORDER, hops=MAX_HOPS - 1))
    with pytest.raises(Undeliverable, match=f"no further in {MAX_HOPS} hand-backs"):
        world.deliver(replace(ORDER, hops=MAX_HOPS))


def test_followers_that_are_never_let_through_are_undeliverable_in_the_end() -> None:
    behind_all = ring.behind_all(PART.hi)
    late = ("41" * 8,)
    world = World(
        HandBack(behind_all, 7, progress=False, stragglers=late), resumed(behind_all, 7, *late)
    )
    order = replace(ORDER, position=behind_all)
    for hops in range(MAX_HOPS):
        assert world.deliver(order) == Outcome("handed back", 0)
        assert world.calls[-2] == ("touch",)
        order = DeliverSegment.from_content(dict(world.sent[-1].content))
        assert (order.position, order.hops) == (behind_all, hops + 1)
    with pytest.raises(Undeliverable, match=f"no further in {MAX_HOPS} hand-backs"):
        world.deliver(order)
    assert len(world.sent) == MAX_HOPS


@pytest.mark.parametrize(("hops", "most"), [(0, 4), (1, 8), (5, 128), (8, 300), (11, 300)])
def test_a_hand_back_without_progress_waits_longer_each_time(
    chance: Callable[[float], None], hops: int, most: int
) -> None:
    world = World(HandBack(PART.lo, 0, progress=False))
    chance(0.0)
    world.deliver(replace(ORDER, hops=hops))
    chance(0.9999999)
    world.deliver(replace(ORDER, hops=hops))
    shortest, longest = (message.delay_seconds for message in world.sent)
    assert (shortest, longest) == (1, most)
