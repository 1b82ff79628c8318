"""DELIVER's decisions around the policy: where to begin, what to store, what to send on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fanfold import clock, times
from fanfold.errors import BadInput, Undeliverable, Unsent
from fanfold.fanout import deliver
from fanfold.fanout.backlog import Resume
from fanfold.fanout.deliver import MAX_HOPS, Delivering, Outcome
from fanfold.fanout.lookup import Found
from fanfold.fanout.pacing import Pace
from fanfold.fanout.row import COMPLETE, DELIVERING, ENDED, Fanout
from fanfold.fanout.segment_size import segment_range
from fanfold.fanout.worker_steps import Delivery, Done, HandBack, max_stragglers_of
from fanfold.follows import ring
from fanfold.messages import DeliverSegment
from fanfold.timeline.entries import Entry
from fanfold.timeline.posts import Post
from tests import stores
from tests.service import AT_MS
from tests.stores import POST, Tables

ROW = replace(stores.ROW, state=DELIVERING, segments=4, pending=frozenset({0, 1, 2, 3}))
COMMAND = DeliverSegment(fanout_id="post-1", segment=1, segments=4)
PART = segment_range(1, 4)


@pytest.fixture(autouse=True)
def run_by_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliver, "run", lambda delivery, worker, entry: worker.run(delivery, entry))


class Worker(Tables):
    """DELIVER on one row of the ledger; every delivery ends with `end`."""

    def __init__(self, end: Done | HandBack, row: Fanout | None = ROW) -> None:
        super().__init__()
        self.end = end
        self.post: Post | None = POST
        self.meanwhile: Fanout | None = None  # what another worker has made of the row
        self.pace = Pace(1000)
        self.deliveries: list[Delivery] = []
        self.entries: list[Entry] = []
        if row:
            self.put(row)
        self.calls: list[str] = []  # that change the ledger, or try to
        plain = self.client.update_item

        def update(**request: Any) -> Any:
            self.calls.append("update")
            return plain(**request)

        self.client.update_item = update

    def find(self, fanout_id: str, publisher_id: str) -> Found:
        assert publisher_id == "ada"
        return Found(self.ledger.get(fanout_id), self.post, 0)

    def run(self, delivery: Delivery, entry: Entry) -> Done | HandBack:
        self.deliveries.append(delivery)
        self.entries.append(entry)
        if self.meanwhile:
            self.put(self.meanwhile)
        return self.end

    def deliver(
        self, command: DeliverSegment = COMMAND, *, redelivered: bool = False, sent_at: int = 0
    ) -> Outcome:
        here: Any = self  # the lookup, and the transport
        return Delivering(here, self.ledger, self.lanes, here).deliver(
            command,
            publisher_id="ada",
            pace=self.pace,
            redelivered=redelivered,
            sent_at=sent_at,
            stop_at=100.0,
        )


def resumed(position: str, written: int, *stragglers: str) -> Fanout:
    return replace(ROW, resume={1: Resume(position, written, stragglers)})


def test_a_delivered_segment_is_finished_with_its_count() -> None:
    worker = Worker(Done(7), replace(ROW, asked_at=AT_MS))
    assert worker.deliver(sent_at=AT_MS) == Outcome("delivered", 7)
    row = worker.row
    assert (row.state, row.pending, row.delivered) == (DELIVERING, ROW.pending - {1}, 7)
    assert (row.came_out, worker.calls) == (AT_MS, ["update"])
    (delivery,) = worker.deliveries
    assert (delivery.start, delivery.hi, delivery.stragglers) == (PART.lo, PART.hi, ())
    assert (delivery.already, delivery.stop_at) == (0, 100.0)
    assert delivery.pace is worker.pace
    assert worker.entries == [Entry(ROW.sort_key, "ada", 1_900_000_000)]


def test_the_stragglers_of_a_segment_are_limited_by_the_number_of_segments() -> None:
    worker = Worker(Done(7), replace(ROW, segments=4096))
    worker.deliver(replace(COMMAND, segments=4096))
    assert worker.deliveries[0].max_stragglers == max_stragglers_of(4096)


def test_the_last_segment_completes_the_fanout() -> None:
    worker = Worker(Done(7), replace(ROW, pending=frozenset({1})))
    worker.deliver()
    assert (worker.row.state, worker.row.delivered) == (COMPLETE, 7)


LAST = replace(ROW, pending=frozenset({1}))
ONLY = replace(ROW, segments=1, pending=frozenset({0}))
CRASHED = replace(ROW, pending=frozenset())  # the worker of its last segment


@pytest.mark.parametrize(
    ("row", "seconds"), [(LAST, 4.5), (ONLY, 4.5), (CRASHED, 4.5), (ROW, None)]
)
@pytest.mark.parametrize("is_retracted", [False, True])
def test_who_completes_a_fanout_says_how_long_it_took_and_nobody_else_does(
    row: Fanout, seconds: float | None, is_retracted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "now_ms", lambda: times.to_ms(ROW.accepted_at) + 4_500)
    command = replace(COMMAND, segment=1 % row.segments, segments=row.segments)
    worker = Worker(Done(7), row)
    worker.post = replace(POST, deleted=is_retracted)
    assert worker.deliver(command).seconds == seconds
    assert (worker.row.state == COMPLETE) == (seconds is not None)
    faster = Worker(Done(7), row)
    faster.meanwhile = replace(
        row, state=COMPLETE, pending=frozenset(), completed_at=stores.ROW.accepted_at
    )
    if row is not CRASHED and not is_retracted:
        assert faster.deliver(command).seconds is None, "another worker has completed it"


@pytest.mark.parametrize(
    ("pending", "state", "calls"),
    [
        ({0}, DELIVERING, []),
        (set(), DELIVERING, ["update"]),  # its last worker crashed before
    ],
)
def test_a_segment_that_is_not_pending_is_not_delivered_again(
    pending: set[int], state: str, calls: list[str]
) -> None:
    worker = Worker(Done(7), replace(ROW, pending=frozenset(pending), state=state))
    assert worker.deliver()[:2] == Outcome("not pending", 0)[:2]
    assert not worker.deliveries
    assert worker.calls == calls
    assert worker.row.state == (DELIVERING if pending else COMPLETE)


@pytest.mark.parametrize(
    ("asked_at", "came_out", "sent_at", "is_noted"),
    [
        (100_000, 0, 100_000, True),
        (100_000, 100_000, 100_000, False),  # noted before
        (100_000, 70_000, 40_000, True),  # by the clock of SQS, a minute behind at most
        (100_000, 0, 39_999, False),
        (0, 0, 100_000, False),
    ],
)
def test_an_order_sent_after_the_question_answers_it_once(
    asked_at: int, came_out: int, sent_at: int, is_noted: bool
) -> None:
    row = replace(ROW, pending=frozenset({0}), asked_at=asked_at, came_out=came_out)
    worker = Worker(Done(7), row)
    assert worker.deliver(sent_at=sent_at) == Outcome("not pending")
    assert worker.row.came_out == (asked_at if is_noted else came_out)
    assert worker.calls == ["update"] * is_noted


@pytest.mark.parametrize("state", sorted(ENDED))
def test_an_order_of_a_fanout_that_has_ended_is_done_even_if_its_plan_is_another(
    state: str,
) -> None:
    worker = Worker(Done(7), replace(ROW, state=state))
    assert worker.deliver(replace(COMMAND, segments=8)) == Outcome(state)
    assert (worker.calls, worker.deliveries) == ([], [])


@pytest.mark.parametrize("position", ["", "4" * 16])
def test_a_message_behind_the_ledger_is_dropped_unless_it_is_redelivered(position: str) -> None:
    command = replace(COMMAND, position=position)
    worker = Worker(Done(9), resumed("5" * 16, 4))
    assert worker.deliver(command) == Outcome("behind")
    assert not worker.deliveries
    assert worker.deliver(command, redelivered=True) == Outcome("delivered", 5)


UNPLANNED = replace(ROW, segments=0, pending=frozenset())


@pytest.mark.parametrize(
    ("row", "command", "reason"),
    [
        (ROW, replace(COMMAND, segments=8), "not in the plan of 'post-1', which has 4"),
        (ROW, replace(COMMAND, segment=4), "not in the plan of 'post-1', which has 4"),
        (UNPLANNED, replace(COMMAND, segment=0, segments=0), "not in the plan"),
        (None, COMMAND, "knows no fan-out 'post-1'"),
    ],
)
def test_a_command_that_contradicts_the_ledger_is_bad_input(
    row: Fanout | None, command: DeliverSegment, reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        Worker(Done(1), row).deliver(command)


# Hand-backs


def test_a_hand_back_is_stored_in_the_ledger_before_the_rest_is_sent() -> None:
    worker = Worker(HandBack("5" * 16, 12, progress=True, stragglers=("41" * 8,)))
    worker.bulk.error = Unsent("1 of 1")
    with pytest.raises(Unsent):
        worker.deliver()
    assert worker.row.resume == {1: Resume("5" * 16, 12, ("41" * 8,))}
    worker.bulk.error = None
    assert worker.deliver(replace(COMMAND, hops=3), redelivered=True) == Outcome("handed back", 0)
    (message,) = worker.bulk.sent
    assert message.group == "ada"
    assert DeliverSegment.from_content(dict(message.content)) == replace(
        COMMAND, position="5" * 16, hops=0
    ), "hops count only without progress"


def test_stragglers_that_are_always_throttled_become_undeliverable() -> None:
    behind_all = ring.behind_all(PART.hi)
    late = ("41" * 8,)
    worker = Worker(
        HandBack(behind_all, 7, progress=False, stragglers=late), resumed(behind_all, 7, *late)
    )
    command = replace(COMMAND, position=behind_all)
    for hops in range(MAX_HOPS):
        assert worker.deliver(command) == Outcome("handed back", 0)
        assert (len(worker.calls), worker.row.resume) == (
            hops + 1,
            resumed(behind_all, 7, *late).resume,
        )
        command = DeliverSegment.from_content(dict(worker.sent[-1].content))
        assert (command.position, command.hops) == (behind_all, hops + 1)
    with pytest.raises(Undeliverable, match=f"no progress in {MAX_HOPS} hand-backs"):
        worker.deliver(command)
    assert len(worker.bulk.sent) == MAX_HOPS


@pytest.mark.parametrize(("hops", "most"), [(0, 4), (5, 128), (8, 300)])
def test_a_hand_back_without_progress_waits_longer_each_time(
    monkeypatch: pytest.MonkeyPatch, hops: int, most: int
) -> None:
    worker = Worker(HandBack(PART.lo, 0, progress=False))
    for chance in (0.0, 0.9999999):
        monkeypatch.setattr(clock, "chance", lambda value=chance: value)
        worker.deliver(replace(COMMAND, hops=hops))
    assert [message.delay_seconds for message in worker.sent] == [1, most]
