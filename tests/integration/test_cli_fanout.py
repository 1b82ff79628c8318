"""`fanfold fanout`: show, watch and resend a delivery."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.integration.cli import run
from tests.integration.system import AT, POST, System

NOW = "2026-11-20T18:00:00.123Z"


@pytest.fixture
def lost(system: System, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The followers of a stalled fan-out, which lost the messages of two of its four segments."""
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 4)
    users = system.give_followers(40)
    system.publish()
    system.pump("Publish")
    for _ in range(2):
        assert system.pump_once("Bulk")
    system.bodies("Bulk")
    system.give_up()
    return users


def test_show_prints_the_state_in_the_ledger(system: System) -> None:
    system.give_followers(3)
    system.publish()
    system.pump()
    shown = run("fanout", "show", POST, "--json")
    assert shown.exit_code == 0
    assert shown.json["state"] == "complete"
    assert (shown.json["delivered"], shown.json["completed_at"]) == (3, AT)
    table = run("fanout", "show", POST).stdout
    assert "complete" in table
    assert "followers_estimated" in table


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("what", ["show", "watch", "resend"])
def test_an_unknown_or_invalid_ref_id_is_answered_with_a_sentence(what: str) -> None:
    ran = run("fanout", what, "nothing")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "knows no fan-out 'nothing'" in ran.said
    assert "'a b' is not a valid id" in run("fanout", what, "a b").said


def test_watch_ends_with_exit_code_0_when_the_delivery_is_complete(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.give_followers(3)
    system.publish()
    states: list[str] = []

    def work(_seconds: float) -> None:
        states.append(system.ledger().state)
        system.pump_once(["Publish", "Express"][len(states) - 1])

    monkeypatch.setattr("fanfold_cli.commands.fanout.time.sleep", work)
    watched = run("fanout", "watch", POST)
    assert (watched.exit_code, states) == (0, ["queued", "delivering"])
    assert "complete" in watched.stdout
    assert "3/3" in watched.said, "the bar ends full"


@pytest.mark.usefixtures("lost")
def test_watch_fails_with_advice_if_the_delivery_stalls() -> None:
    watched = run("fanout", "watch", POST)
    assert (watched.exit_code, "has stalled" in watched.said) == (1, True)
    assert "fanfold dlq redrive" in watched.said


def test_watch_gives_up_after_its_timeout(system: System) -> None:
    system.publish()
    watched = run("fanout", "watch", POST, "--timeout", "0")
    assert (watched.exit_code, "not complete within 0 s" in watched.said) == (1, True)
    assert system.waiting("Publish") == 1


def test_resend_completes_a_stalled_delivery(system: System, lost: list[str]) -> None:
    system.clock.advance(60)
    sent = run("fanout", "resend", POST, "--json")
    assert sent.json == {"ref_id": POST, "sent": 2}
    row = system.ledger()
    assert (row.state, row.sent_at) == ("stalled", system.clock.ms)
    system.pump()
    assert system.reached() == lost
    assert system.ledger().state == "complete"


def test_resend_lets_sweep_count_its_rounds_and_questions_from_zero(
    system: System, lost: list[str]
) -> None:
    system.pump()
    assert len(lost) == 40
    row = replace(system.ledger(), fanout_id="post-2", sort_key="")
    system.fanouts.open(row)
    for at in (1, 2):
        assert system.sweeper.note_question(system.ledger("post-2"), now_ms=at)
        assert system.sweeper.note_round(system.ledger("post-2"), now_ms=at)
    run("fanout", "resend", "post-2")
    after = system.ledger("post-2")
    assert (after.asks, after.rounds, after.asked_at, after.sent_at) == (0, 0, 2, system.clock.ms)


def test_resend_of_an_unplanned_delivery_sends_the_command_to_plan(system: System) -> None:
    users = system.give_followers(2)
    system.publish()
    system.bodies("Publish")
    system.give_up()
    assert "Sent 1 message for" in run("fanout", "resend", POST).stdout
    system.pump()
    assert system.reached() == users


def test_resend_of_a_complete_delivery_sends_nothing(system: System) -> None:
    system.publish()
    system.pump()
    assert run("fanout", "resend", POST, "--json").json["sent"] == 0
    assert system.waiting("Express") == 0
