"""`fanfold pause` and `fanfold resume`: they switch the event source mappings, and wait."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cli import run
from tests.integration.system import System

DELIVERIES = ["Publish", "Express", "Bulk"]


class InUse(Exception):
    """Lambda is changing the mapping just now."""


class FakeLambda:
    """Mappings that need one read to change, as on AWS; `busy` updates are refused before."""

    class exceptions:  # noqa: N801
        ResourceInUseException = InUse
        ResourceConflictException = InUse

    def __init__(self, state: str = "Enabled", *, busy: int = 0, stuck: bool = False) -> None:
        self.states = dict.fromkeys(DELIVERIES, state)
        self.asked: list[tuple[str, bool]] = []
        self.busy, self.stuck = busy, stuck

    def list_event_source_mappings(self, *, EventSourceArn: str) -> Any:  # noqa: N803
        queue = EventSourceArn.rpartition(":")[2]
        return {"EventSourceMappings": [{"UUID": queue, "State": self.states[queue]}]}

    def update_event_source_mapping(self, *, UUID: str, Enabled: bool) -> None:  # noqa: N803
        if self.busy:
            self.busy -= 1
            raise InUse
        self.asked.append((UUID, Enabled))
        self.states[UUID] = "Enabling" if Enabled else "Disabling"

    def get_event_source_mapping(self, *, UUID: str) -> Any:  # noqa: N803
        now = self.states[UUID]
        if not self.stuck:
            self.states[UUID] = {"Enabling": "Enabled", "Disabling": "Disabled"}.get(now, now)
        return {"State": now}


@pytest.fixture(autouse=True)
def slept(system: System, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the command: they take no time, but its clock counts them."""
    naps: list[float] = []
    monkeypatch.setattr("fanfold_cli.commands.pause.time.sleep", naps.append)
    monkeypatch.setattr("fanfold_cli.commands.pause.time.monotonic", lambda: sum(naps))
    return naps


def test_pause_disables_all_who_deliver_posts_and_waits_until_they_are_disabled() -> None:
    """PLAN too: it delivers to few followers by itself."""
    fake = FakeLambda()
    ran = run("pause", "--json", lambda_=fake)
    assert (ran.exit_code, fake.asked) == (0, [(queue, False) for queue in DELIVERIES])
    assert fake.states == dict.fromkeys(DELIVERIES, "Disabled")
    change = {"was": "Enabled", "state": "Disabled", "changed": True}
    assert ran.json == {"lanes": [{"lane": queue.lower(), **change} for queue in DELIVERIES]}


@pytest.mark.parametrize(
    ("arguments", "before", "is_changed", "outcome"),
    [
        ("pause --lane express", "Enabled", True, "is paused now."),
        ("pause --lane bulk", "Enabled", True, "is paused now."),
        ("pause --lane publish", "Enabled", True, "is paused now."),
        ("resume", "Disabled", True, "is running now."),
        ("pause", "Disabled", False, "was paused already."),
        ("resume", "Enabled", False, "was running already."),
    ],
)
def test_only_the_chosen_lanes_that_must_change_are_switched(
    arguments: str, before: str, is_changed: bool, outcome: str
) -> None:
    fake = FakeLambda(before)
    command, *option = arguments.split()
    lanes = option[1:] or [queue.lower() for queue in DELIVERIES]
    ran = run(command, *option, lambda_=fake)
    assert (ran.exit_code, ran.stdout.splitlines()) == (0, [f"{lane} {outcome}" for lane in lanes])
    asked = [(lane.title(), command == "resume") for lane in lanes]
    assert fake.asked == (asked if is_changed else [])


def test_a_change_in_progress_is_waited_for(slept: list[float]) -> None:
    fake = FakeLambda("Enabling", busy=2)
    assert run("pause", "--lane", "bulk", lambda_=fake).exit_code == 0
    assert fake.asked == [("Bulk", False)]
    assert len(slept) >= 2


def test_a_mapping_that_does_not_change_within_the_patience_is_reported(
    slept: list[float],
) -> None:
    ran = run("pause", lambda_=FakeLambda(stuck=True))
    assert (ran.exit_code, "publish is still Disabling after 180 s" in ran.said) == (1, True)
    assert sum(slept) > 180
