"""The ledger's rows on a table of the model: what each change writes, and where it is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fanfold import times
from fanfold.fanout.backlog import Resume
from fanfold.fanout.row import COMPLETE, DELIVERING, QUEUED, STALLED, VOID, Fanout
from tests import stores
from tests.service import AT_MS as AT
from tests.stores import Tables

ROW = replace(stores.ROW, expires_at=AT // 1000 + 1_000)
LATER, LAST = times.to_text(AT + 60_000), times.to_text(AT + 120_000)


class Table(Tables):
    """The ledger with one row."""

    def __init__(self) -> None:
        super().__init__()
        assert self.ledger.open(ROW) is None

    @property
    def indexes(self) -> tuple[bool, bool]:
        """Whether it is in the index of the open fan-outs, and in that of the stalled ones."""
        return "post-1" in self.ledger.open_ids(), "post-1" in self.ledger.stalled_ids()

    def lose_answer(self, meanwhile: Callable[[], object] = lambda: None) -> None:
        """Apply the next update and refuse its repetition; between the two, something happens."""
        plain = self.client.call

        def call(operation: str, request: Any) -> Any:
            self.client.call = plain
            plain(operation, request)
            meanwhile()
            return plain(operation, request)

        self.client.call = call


@pytest.fixture
def table() -> Table:
    return Table()


def plan(table: Table, segments: int = 4, now: str = LATER) -> bool:
    return table.ledger.plan(table.row, segments=segments, followers=9, level=2, now=now)


def finish(table: Table, segment: int, now: str = LATER, **more: bool) -> Fanout | None:
    return table.ledger.finish_segment(table.row, segment, written=5, now=now, **more)


def resume(table: Table, segment: int, now: str = LATER, **more: bool) -> bool:
    return table.ledger.store_resume(table.row, segment, Resume("5" * 16, 3), now=now, **more)


def finish_all(table: Table) -> list[Fanout | None]:
    plan(table)
    return [finish(table, segment) for segment in range(4)]


def give_up(table: Table) -> bool:
    return table.open.give_up(table.row, now_ms=AT + 60_000)


# The states, and how a fan-out comes into each. Those that stalled were planned before, or not.
STATES: dict[str, Callable[[Table], object]] = {
    "queued": lambda table: None,
    "delivering": lambda table: (plan(table), finish(table, 0)),
    "stalled": lambda table: (plan(table), finish(table, 0), give_up(table)),
    "stalled, not planned": give_up,
    "delivered": finish_all,
    "delivered, stalled": lambda table: (finish_all(table), give_up(table)),
    "complete": lambda table: (plan(table, 1), finish(table, 0)),
    "expired": lambda table: (plan(table), table.ledger.expire(table.row, now=LATER)),
    "abandoned": lambda table: (plan(table), table.ledger.abandon("post-1", now=LATER)),
    "abandoned, not planned": lambda table: table.ledger.abandon("post-1", now=LATER),
    "abandoned, delivered": lambda table: (
        finish_all(table),
        table.ledger.abandon("post-1", now=LATER),
    ),
}
AWAIT_PLAN = {"queued", "stalled, not planned"}
PENDING = {"delivering", "stalled"}
NOT_ENDED = AWAIT_PLAN | PENDING | {"delivered", "delivered, stalled"}
# What may be done to it, and the states in which that changes something.
CHANGES: dict[str, tuple[Callable[[Table], object], set[str]]] = {
    "plan": (lambda table: plan(table, now=LAST), AWAIT_PLAN),
    "complete without followers": (
        lambda table: table.ledger.complete_at_once("post-1", followers=0, now=LAST),
        AWAIT_PLAN,
    ),
    "complete in a channel": (
        lambda table: table.ledger.complete_in_channel("post-1", followers=9, revision=1, now=LAST),
        AWAIT_PLAN,
    ),
    "finish": (lambda table: finish(table, 1, now=LAST), PENDING),
    "resume": (lambda table: resume(table, 1, now=LAST), PENDING),
    "complete": (
        lambda table: table.ledger.complete_if_delivered("post-1", now=LAST),
        {"delivered", "delivered, stalled"},
    ),
    "touch": (lambda table: table.ledger.touch(table.row, now=LAST), NOT_ENDED),
    "expire": (lambda table: table.ledger.expire(table.row, now=LAST), AWAIT_PLAN | PENDING),
    "abandon": (lambda table: table.ledger.abandon("post-1", now=LAST), NOT_ENDED),
    "reopen": (lambda table: table.ledger.reopen(table.row, now=LAST), NOT_ENDED),
    "give up": (
        lambda table: table.row.is_open and table.open.give_up(table.row, now_ms=AT + 120_000),
        {"queued", "delivering", "delivered"},
    ),
}


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_applies_in_its_states_alone_and_keeps_both_indexes(
    table: Table, state: str, change: str
) -> None:
    STATES[state](table)
    before = table.row
    act, applies_in = CHANGES[change]
    act(table)
    after = table.row
    assert (after != before) is (state in applies_in)
    if after != before:
        assert after.changed_at == LAST, "SWEEP counts the silence from then"
    assert table.indexes == (after.state in (QUEUED, DELIVERING), after.state == STALLED)


def test_a_new_row_has_what_delivering_needs(table: Table) -> None:
    assert table.row == replace(ROW, changed_at=ROW.accepted_at)


@pytest.mark.parametrize("asked_later_ms", [-1, 0, 1])
def test_a_plan_lists_all_segments_and_is_sent_no_earlier_than_the_question(
    table: Table, asked_later_ms: int
) -> None:
    """Whatever the clocks of SWEEP and PLAN say."""
    asked_at = AT + 60_000 + asked_later_ms
    assert table.open.note_question(table.row, now_ms=asked_at)
    assert plan(table)
    assert table.row == replace(
        ROW,
        state=DELIVERING,
        segments=4,
        followers=9,
        level=2,
        pending=frozenset(range(4)),
        changed_at=LATER,
        sent_at=max(AT + 60_000, asked_at),
        asked_at=asked_at,
    )


def test_the_segments_of_a_fanout_are_finished_one_by_one_and_counted_once(table: Table) -> None:
    plan(table)
    resume(table, 2)
    assert finish(table, 2) == table.row
    assert finish(table, 2) is None
    assert table.row.pending == frozenset({0, 1, 3})
    assert (table.row.delivered, table.row.resume) == (5, {})
    for segment in (0, 1, 3):
        finish(table, segment)
    assert (table.row.state, table.row.delivered) == (DELIVERING, 20)
    assert table.ledger.complete_if_delivered("post-1", now=LAST)
    assert (table.row.state, table.row.completed_at) == (COMPLETE, LAST)


def test_a_fanout_without_followers_is_complete_with_nothing_delivered(table: Table) -> None:
    assert table.ledger.complete_at_once("post-1", followers=0, now=LATER)
    row = table.row
    assert (row.state, row.completed_at, row.changed_at) == (COMPLETE, LATER, LATER)
    assert (row.segments, row.followers, row.delivered) == (0, 0, 0)


def test_a_resume_never_goes_back_and_may_be_stored_twice(table: Table) -> None:
    plan(table)
    for position, written, is_stored in [
        ("5" * 16, 3, True),
        ("5" * 16, 3, True),
        ("4" * 16, 9, False),
        ("5" * 16, 2, False),
        ("6" * 16, 3, True),
    ]:
        new = Resume(position, written)
        assert table.ledger.store_resume(table.row, 1, new, now=LAST) is is_stored
    assert table.row.resume == {1: Resume("6" * 16, 3)}
    finish(table, 1)
    assert not resume(table, 1), "it is finished"
    assert not resume(table, 7), "it is no segment of the plan"


@pytest.mark.parametrize("change", ["finish", "resume", "touch"])
@pytest.mark.parametrize("answers", [False, True])
def test_a_worker_notes_the_answer_in_the_update_that_it_makes_anyway(
    table: Table, change: str, answers: bool
) -> None:
    plan(table)
    table.open.note_question(table.row, now_ms=AT + 90_000)
    if change == "finish":
        finish(table, 1, LAST, answers=answers)
    elif change == "resume":
        resume(table, 1, LAST, answers=answers)
    else:
        table.ledger.touch(table.row, now=LAST, answers=answers)
    assert table.row.came_out == (AT + 90_000 if answers else 0)
    assert table.row.asks == (1 if change == "touch" else 0), "a try is no progress"


def test_only_the_newest_question_is_noted_as_answered(table: Table) -> None:
    plan(table)
    table.open.note_question(table.row, now_ms=AT + 90_000)
    first = table.row
    table.open.note_question(table.row, now_ms=AT + 95_000)
    table.ledger.note_answer(first)
    assert table.row.came_out == 0
    table.ledger.note_answer(table.row)
    assert table.row.came_out == AT + 95_000


def test_a_person_who_reopens_a_fanout_begins_its_questions_and_rounds_anew(table: Table) -> None:
    STATES["delivering"](table)
    table.open.note_question(table.row, now_ms=AT + 70_000)
    table.open.note_round(table.row, now_ms=AT + 80_000)
    table.open.give_up(table.row, now_ms=AT + 90_000)
    reopened = table.ledger.reopen(table.row, now=LAST)
    assert reopened == table.row
    assert (reopened.state, reopened.asks, reopened.rounds) == (DELIVERING, 0, 0)
    assert (reopened.sent_at, reopened.changed_at) == (AT + 120_000, LAST)
    assert reopened.asked_at == AT + 70_000


AGAIN = replace(ROW, sort_key=f"{LAST}#post-1", changed_at=LAST)


def test_a_row_is_overwritten_or_void_only_as_it_was_seen(table: Table) -> None:
    seen = table.row
    assert table.ledger.open(AGAIN, over=seen) is None
    for _ in range(2):
        assert table.row == AGAIN
        table.ledger.void(seen, now=LATER)
        assert table.ledger.open(replace(ROW, changed_at=LATER), over=seen) == AGAIN
    table.ledger.void(table.row, now=LAST)
    assert table.row.state == VOID
    assert not list(table.ledger.open_ids())


def test_a_repeated_write_of_a_row_blocks_nobody(table: Table) -> None:
    assert table.ledger.open(replace(AGAIN, fanout_id="post-2")) is None
    assert table.ledger.open(replace(AGAIN, fanout_id="post-2")) is None


@pytest.mark.parametrize(
    "other", [{"publisher_id": "bea"}, {"accepted_at": LAST}, {"sort_key": f"{AT}#post-1"}]
)
def test_a_row_that_another_wrote_in_the_same_millisecond_stands_in_the_way(
    table: Table, other: dict[str, Any]
) -> None:
    assert table.ledger.open(AGAIN, over=table.row) is None
    assert table.ledger.open(replace(AGAIN, **other)) == AGAIN


def test_only_the_post_of_the_row_expires(table: Table) -> None:
    other = replace(table.row, sort_key=f"{LAST}#post-1")
    assert not table.ledger.expire(other, now=LAST)
    assert table.row.state == QUEUED


# SWEEP's changes

REMEDIES: dict[str, Callable[[Table, Fanout, int], bool]] = {
    "question": lambda table, row, now_ms: table.open.note_question(row, now_ms=now_ms),
    "round": lambda table, row, now_ms: table.open.note_round(row, now_ms=now_ms),
    "give up": lambda table, row, now_ms: table.open.give_up(row, now_ms=now_ms),
}
MEANWHILE: dict[str, Callable[[Table], object]] = {
    "progress": lambda table: finish(table, 1, LAST),
    "a try": lambda table: table.ledger.touch(table.row, now=LAST),
    "another question": lambda table: table.open.note_question(table.row, now_ms=AT + 99_000),
    "another round": lambda table: table.open.note_round(table.row, now_ms=AT + 99_000),
    "giving up": give_up,  # in the very millisecond of the last change
    "the end": lambda table: table.ledger.abandon("post-1", now=LATER),
}


@pytest.mark.parametrize("remedy", REMEDIES)
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_sweep_changes_nothing_that_moved_since_it_was_read(
    table: Table, remedy: str, meanwhile: str
) -> None:
    STATES["delivering"](table)
    seen = table.row
    MEANWHILE[meanwhile](table)
    moved = table.row
    assert not REMEDIES[remedy](table, seen, AT + 120_000)
    assert table.row == moved


@pytest.mark.parametrize("remedy", ["question", "round"])
@pytest.mark.parametrize("since", ["nothing", "progress", "the end", "another run"])
def test_sweep_sends_if_its_own_update_was_applied_and_still_stands(
    table: Table, remedy: str, since: str
) -> None:
    STATES["delivering"](table)
    other = AT + 121_000
    happens: dict[str, Callable[[], object]] = {
        "nothing": lambda: None,
        "progress": lambda: finish(table, 1, LAST),
        "the end": lambda: table.ledger.abandon("post-1", now=LAST),
        "another run": lambda: REMEDIES[remedy](table, table.row, other),
    }
    seen = table.row
    table.lose_answer(happens[since])
    sends = REMEDIES[remedy](table, seen, AT + 120_000)
    assert sends is (since in ("nothing", "progress"))
