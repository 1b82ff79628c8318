"""Virtual time for the benches on the model: what would happen at once runs one after the other.

Actors are greenlets that give way while they wait, and calls in flight are events; the next one is
always the earliest. Nothing is drawn here, so the same model is the same run.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from aws_model.clock import Clock
from fanfold import clock as product_clock


@dataclass
class Loop:
    """Runs what is due, and moves the clock to what is due next."""

    clock: Clock = field(default_factory=Clock)
    _due: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _count: int = 0
    _hub: greenlet = field(default_factory=getcurrent)

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.clock.elapsed

    def at(self, when: float, do: Callable[[], object]) -> None:
        """Do something at a time; what is due at the same time keeps its order."""
        self._count += 1
        heapq.heappush(self._due, (when, self._count, do))

    def start(self, act: Callable[[], object]) -> None:
        """Let an actor begin, now."""
        self.at(self.now, greenlet(act, parent=self._hub).switch)

    def sleep(self, seconds: float) -> None:
        """Let time pass for the actor that calls this."""
        self.at(self.now + seconds, getcurrent().switch)
        self.give_way()

    def give_way(self) -> None:
        """Let the others go on, until somebody switches back."""
        self._hub.switch()

    def run(self, until: Callable[[], bool]) -> None:
        """Go on until it is so; raises `RuntimeError` if nothing is left that could make it so."""
        while not until():
            if not self._due:
                raise RuntimeError("Nothing is left to happen.")
            when, _, do = heapq.heappop(self._due)
            self.clock.advance_to(when)
            do()


@dataclass
class Bell:
    """One actor waits for it, at most for some time."""

    loop: Loop
    _waits: int = 0
    _waiting: greenlet | None = None

    def wait(self, seconds: float | None) -> None:
        """Wait until it rings, or for so long."""
        self._waits += 1
        self._waiting = getcurrent()
        if seconds is not None:
            number = self._waits
            self.loop.at(self.loop.now + seconds, lambda: self._wake(number))
        self.loop.give_way()

    def ring(self) -> None:
        """Wake who waits; not to be called by an actor, which would never go on itself."""
        self._wake(self._waits)

    def _wake(self, number: int) -> None:
        if self._waiting is not None and number == self._waits:
            actor, self._waiting = self._waiting, None
            actor.switch()


@contextmanager
def installed(loop: Loop, random: Random) -> Iterator[None]:
    """Let the product live in this time, for a while."""
    ours = {
        "now_ms": loop.clock.now_ms,
        "monotonic": loop.clock.monotonic,
        "sleep": loop.sleep,
        "chance": random.random,
        "new_id": lambda: f"{random.getrandbits(128):032x}",
    }
    theirs = {name: getattr(product_clock, name) for name in ours}
    for name, function in ours.items():
        setattr(product_clock, name, function)
    try:
        yield
    finally:
        for name, function in theirs.items():
            setattr(product_clock, name, function)
