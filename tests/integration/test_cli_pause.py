"""`fanfold pause` and `fanfold resume`: the lanes' mappings are switched, once, and waited for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.cli import run
from tests.integration.system import System


class InUse(Exception):
    """Lambda is changing the mapping just now."""


class FakeLambda:
    """Two mappings that take a look or two to change, as those of AWS do."""

    class exceptions:  # noqa: N801
        ResourceInUseException = InUse
        ResourceConflictException = InUse

    def __init__(self, state: str = "Enabled", *, busy: int = 0, stuck: bool = False) -> None:
        self.states = {"Express": state, "Bulk": state}
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
    """Waiting takes no time here, but is seen by the clock."""
    naps: list[float] = []
    monkeypatch.setattr("fanfold_cli.commands.pause.time.sleep", naps.append)
    monkeypatch.setattr("fanfold_cli.commands.pause.time.monotonic", lambda: sum(naps))
    return naps


def test_pause_disables_both_lanes_and_waits_until_they_are() -> None:
    fake = FakeLambda()
    ran = run("pause", "--json", lambda_=fake)
    assert (ran.exit_code, fake.asked) == (0, [("Express", False), ("Bulk", False)])
    assert fake.states == {"Express": "Disabled", "Bulk": "Disabled"}
    assert ran.json == {
        "lanes": [
            {"lane": "express", "was": "Enabled", "state": "Disabled", "changed": True},
            {"lane": "bulk", "was": "Enabled", "state": "Disabled", "changed": True},
        ]
    }


def test_resume_enables_what_was_paused() -> None:
    fake = FakeLambda("Disabled")
    ran = run("resume", lambda_=fake)
    assert fake.asked == [("Express", True), ("Bulk", True)]
    assert ran.stdout.splitlines() == ["express is running now.", "bulk is running now."]


@pytest.mark.parametrize("lane", ["express", "bulk"])
def test_one_lane_is_paused_alone(lane: str) -> None:
    fake = FakeLambda()
    assert run("pause", "--lane", lane, lambda_=fake).stdout == f"{lane} is paused now.\n"
    assert fake.asked == [(lane.title(), False)]


@pytest.mark.parametrize(("command", "state"), [("pause", "Disabled"), ("resume", "Enabled")])
def test_the_second_time_nothing_is_changed_and_that_is_said(command: str, state: str) -> None:
    fake = FakeLambda(state)
    ran = run(command, lambda_=fake)
    assert (ran.exit_code, fake.asked) == (0, [])
    assert ran.stdout.count("already.") == 2


def test_a_change_that_is_under_way_is_waited_for(slept: list[float]) -> None:
    fake = FakeLambda("Enabling", busy=2)
    assert run("pause", "--lane", "bulk", lambda_=fake).exit_code == 0
    assert fake.asked == [("Bulk", False)]
    assert len(slept) >= 2


def test_a_mapping_that_never_gets_there_is_told(slept: list[float]) -> None:
    ran = run("pause", lambda_=FakeLambda(stuck=True))
    assert (ran.exit_code, "express is still Disabling after 180 s" in ran.said) == (1, True)
    assert sum(slept) > 180
