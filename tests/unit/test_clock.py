"""Attempts and the pauses between them."""

from __future__ import annotations

import pytest

from fanfold import clock
from fanfold.clock import tries


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(clock, "sleep", slept.append)
    monkeypatch.setattr(clock, "chance", lambda: 0.5)
    return slept


def test_pauses_double_and_stand_between_attempts_only(slept: list[float]) -> None:
    assert list(tries(4, 0.1)) == [0, 1, 2, 3]
    assert slept == [0.05, 0.1, 0.2]


def test_after_a_success_there_is_no_pause(slept: list[float]) -> None:
    for attempt in tries(4, 0.1):
        if attempt == 1:
            break
    assert slept == [0.05]


def test_each_pause_is_random(slept: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    draws = iter((0.0, 0.9))
    monkeypatch.setattr(clock, "chance", lambda: next(draws))
    list(tries(3, 1.0))
    assert slept == [0.0, 1.8]
