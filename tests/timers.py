"""A clock that only tests move, for what a command shows while its user waits."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest


@dataclass
class Clock:
    """In place of time for `threading.Timer`, and for the rates of rich's bars."""

    now: float = 0.0
    due: dict["Timer", float] = field(default_factory=dict)

    @classmethod
    def instead(cls, monkeypatch: pytest.MonkeyPatch) -> "Clock":
        clock = cls()
        monkeypatch.setattr(threading, "Timer", partial(Timer, clock))
        monkeypatch.setattr("rich.console.monotonic", lambda: clock.now)
        return clock

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for timer in [each for each, at in self.due.items() if at <= self.now]:
            timer.cancel()
            timer.function()


@dataclass(eq=False)
class Timer:
    clock: Clock
    seconds: float
    function: Callable[[], None]

    def start(self) -> None:
        self.clock.due[self] = self.clock.now + self.seconds

    def cancel(self) -> None:
        self.clock.due.pop(self, None)
