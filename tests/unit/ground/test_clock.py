"""Attempts and the pauses between them, and the time of caches."""

from __future__ import annotations

import pytest

from fanfold import clock
from fanfold.clock import Lasting, tries


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(clock, "sleep", slept.append)
    monkeypatch.setattr(clock, "chance", lambda: 0.5)
    return slept


def test_pauses_double_and_stand_between_attempts_only(slept: list[float]) -> None:
    assert list(tries(4, 0.1)) == [0, 1, 2, 3]
    assert slept == [0.05, 0.1, 0.2]


class Clocks:
    """The two clocks, which stop and jump as a test says; counted in seconds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.monotonic = 1_800_000_000.0, 77.0
        monkeypatch.setattr(clock, "now_ms", lambda: int(1000 * self.wall))
        monkeypatch.setattr(clock, "monotonic", lambda: self.monotonic)

    def go_on(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_time_that_both_clocks_tell_passes_once(clocks: Clocks) -> None:
    lasting = Lasting()
    begun = lasting()
    for _ in range(3_000):  # often within a millisecond, of which the wall clock tells nothing
        clocks.go_on(0.001 / 3)
        lasting()
    assert lasting() - begun == pytest.approx(1.0)


@pytest.mark.parametrize("frozen", [0.5, 3_600.0])
def test_time_passes_while_the_process_is_frozen(clocks: Clocks, frozen: float) -> None:
    lasting = Lasting()
    begun = lasting()
    clocks.wall += frozen
    clocks.go_on(2.0)
    assert lasting() - begun == pytest.approx(frozen + 2.0)
    assert lasting() - begun == pytest.approx(frozen + 2.0)


def test_time_advances_although_the_wall_clock_is_set_back(clocks: Clocks) -> None:
    lasting = Lasting()
    begun = lasting()
    clocks.wall -= 3_600
    clocks.go_on(2.0)
    assert lasting() - begun == pytest.approx(2.0)
    clocks.wall += 60  # frozen for a minute
    assert lasting() - begun == pytest.approx(62.0)
