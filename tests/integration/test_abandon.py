"""An abandoned fan-out: ended by a person, reopened by nothing, and its messages are done."""

from __future__ import annotations

import pytest

from fanfold import names
from fanfold.fanout.backlog import Resume
from fanfold.fanout.status import status_of
from tests.integration.system import POST, System

NOW = "2026-11-20T18:00:09.000Z"


@pytest.fixture
def halfway(system: System, monkeypatch: pytest.MonkeyPatch) -> System:
    """A fan-out of four segments, of which one is delivered and three wait in the bulk lane."""
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 4)
    system.give_followers(40)
    system.publish()
    system.pump("Publish")
    assert system.pump_once("Bulk")
    return system


def abandon(system: System) -> bool:
    return system.fanouts.abandon(POST, now=NOW)


@pytest.mark.parametrize("is_stalled", [False, True])
def test_an_abandoned_fanout_leaves_both_indexes_and_keeps_its_entries(
    halfway: System, is_stalled: bool
) -> None:
    if is_stalled:
        halfway.give_up()
    written = halfway.reached()
    assert abandon(halfway)
    row = halfway.ledger()
    assert (row.state, row.changed_at, len(row.pending)) == ("abandoned", NOW, 3)
    assert halfway.open_fanouts() == []
    assert list(halfway.fanouts.stalled_ids(page=10)) == []
    assert halfway.reached() == written != []
    assert not abandon(halfway), "the second time changes nothing"


def test_messages_of_an_abandoned_fanout_are_done_quietly(halfway: System) -> None:
    written = halfway.reached()
    abandon(halfway)
    before = halfway.dump()
    halfway.pump()
    assert halfway.dump() == before
    assert halfway.reached() == written
    assert all(halfway.waiting(f"{queue.name}Dlq") == 0 for queue in names.QUEUES)


def test_an_abandoned_fanout_that_awaits_its_plan_is_not_planned(system: System) -> None:
    system.give_followers(3)
    system.publish()
    assert abandon(system)
    system.pump()
    assert system.ledger().state == "abandoned"
    assert system.reached() == []
    shown = status_of(system.ledger())
    assert (shown.state, shown.followers_estimated, shown.completed_at) == ("abandoned", None, None)


def test_no_worker_reopens_an_abandoned_fanout(halfway: System) -> None:
    abandon(halfway)
    ledger, row, before = halfway.fanouts, halfway.ledger(), halfway.rows(names.FANOUTS)
    segment = min(row.pending)
    assert not ledger.plan(row, segments=2, followers=9, level=0, now=NOW)
    assert not ledger.finish_segment(row, segment, written=5, now=NOW)
    assert not ledger.store_resume(row, segment, Resume("f" * 16, 5), now=NOW)
    assert not ledger.complete_if_delivered(POST, now=NOW)
    assert not ledger.complete_at_once(POST, followers=0, now=NOW)
    ledger.touch(row, now="2026-11-21T00:00:00.000Z")
    assert halfway.rows(names.FANOUTS) == before


def test_neither_a_repeated_publish_nor_sweep_reopens_an_abandoned_fanout(halfway: System) -> None:
    abandon(halfway)
    halfway.bodies("Bulk")
    before = halfway.rows(names.FANOUTS)
    assert halfway.publish().status == 202
    halfway.pump()
    halfway.clock.advance(3600)
    halfway.sweep()
    assert halfway.rows(names.FANOUTS) == before
    assert halfway.waiting("Bulk") == halfway.waiting("Publish") == 0


def test_a_worker_that_was_writing_meanwhile_changes_nothing_but_its_entries(
    halfway: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    fix = halfway.unretried.batch_write_item

    def write(**request: object) -> object:
        abandon(halfway)
        return fix(**request)

    monkeypatch.setattr(halfway.unretried, "batch_write_item", write)
    before = len(halfway.reached())
    assert halfway.pump_once("Bulk")
    assert len(halfway.reached()) > before
    row = halfway.ledger()
    assert (row.state, row.delivered, len(row.pending)) == ("abandoned", before, 3)


def test_a_complete_fanout_cannot_be_abandoned(system: System) -> None:
    system.publish()
    system.pump()
    assert not abandon(system)
    assert system.ledger().state == "complete"
    assert not system.fanouts.abandon("unknown", now=NOW)
