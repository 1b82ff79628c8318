"""An abandoned fan-out: ended by a person, reopened by nothing, and its messages are done."""

from __future__ import annotations

import pytest

from fanfold import names
from fanfold.fanout.status import status_of
from tests.service import POST, System

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


def test_a_complete_fanout_cannot_be_abandoned(system: System) -> None:
    system.publish()
    system.pump()
    assert not abandon(system)
    assert system.ledger().state == "complete"
    assert not system.fanouts.abandon("unknown", now=NOW)
