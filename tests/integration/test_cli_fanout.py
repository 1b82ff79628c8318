"""`fanfold fanout`: what the ledger says, once, until the end, and once more with effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.cli import run
from tests.integration.system import AT, System

NOW = "2026-11-20T18:00:00.123Z"


@pytest.fixture
def lost(system: System, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A fan-out of four segments that stalled: two are delivered, the others' messages lost."""
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 4)
    users = system.give_followers(40)
    system.publish()
    system.pump("Publish")
    for _ in range(2):
        assert system.pump_once("Bulk")
    system.bodies("Bulk")
    system.fanouts.give_up(system.ledger(), now=NOW)
    return users


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Let something happen whenever the command waits."""

    def let(happen: Callable[[], None]) -> None:
        monkeypatch.setattr("fanfold_cli.commands.fanout.time.sleep", lambda _seconds: happen())

    return let


def test_show_prints_what_the_ledger_says(system: System) -> None:
    system.give_followers(3)
    system.publish()
    system.pump()
    shown = run("fanout", "show", "post-1", "--json")
    assert shown.exit_code == 0
    assert shown.json["state"] == "complete"
    assert (shown.json["delivered"], shown.json["completed_at"]) == (3, AT)
    table = run("fanout", "show", "post-1").stdout
    assert "complete" in table
    assert "followers_estimated" in table


@pytest.mark.usefixtures("system")
@pytest.mark.parametrize("what", ["show", "watch", "resend"])
def test_an_unknown_fanout_is_a_sentence_and_a_failure(what: str) -> None:
    ran = run("fanout", what, "nothing")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "knows no fan-out 'nothing'" in ran.said
    assert "'a b' is not a valid id" in run("fanout", what, "a b").said


def test_watch_ends_with_0_when_the_delivery_is_complete(
    system: System, meanwhile: Callable[[Callable[[], None]], None]
) -> None:
    system.give_followers(3)
    system.publish()
    looks: list[str] = []

    def work() -> None:
        looks.append(system.ledger().state)
        system.pump_once(["Publish", "Express"][len(looks) - 1])

    meanwhile(work)
    watched = run("fanout", "watch", "post-1")
    assert (watched.exit_code, looks) == (0, ["queued", "delivering"])
    assert "complete" in watched.stdout
    assert "3/3" in watched.said, "the bar ends full"


@pytest.mark.usefixtures("lost")
def test_watch_of_a_stalled_delivery_fails_with_what_to_do() -> None:
    watched = run("fanout", "watch", "post-1")
    assert watched.exit_code == 1
    assert "has stalled" in watched.said
    assert "fanfold dlq redrive" in watched.said


def test_watch_gives_up_when_its_time_is_up(system: System) -> None:
    system.publish()
    watched = run("fanout", "watch", "post-1", "--timeout", "0")
    assert watched.exit_code == 1
    assert "not complete within 0 s" in watched.said
    assert system.waiting("Publish") == 1


def test_resend_completes_a_stalled_delivery(system: System, lost: list[str]) -> None:
    sent = run("fanout", "resend", "post-1", "--json")
    assert sent.json == {"ref_id": "post-1", "sent": 2}
    system.pump()
    assert system.reached() == lost
    assert system.ledger().state == "complete"


def test_resend_of_a_delivery_that_was_never_planned_sends_the_order_to_plan(
    system: System,
) -> None:
    users = system.give_followers(2)
    system.publish()
    system.bodies("Publish")
    system.fanouts.give_up(system.ledger(), now=NOW)
    assert "Sent 1 message for" in run("fanout", "resend", "post-1").stdout
    system.pump()
    assert system.reached() == users


def test_resend_of_a_complete_delivery_sends_nothing(system: System) -> None:
    system.publish()
    system.pump()
    assert run("fanout", "resend", "post-1", "--json").json["sent"] == 0
    assert system.waiting("Express") == 0
