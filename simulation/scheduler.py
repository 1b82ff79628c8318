"""Actors that take turns: each is a greenlet that gives way at every external call.

The one who decides whose turn it is draws from the seed, so the same seed is the same run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from aws_model.clock import Clock


class Crash(BaseException):
    """The process of an actor dies here. No `except Exception` of the product catches it."""


@dataclass(eq=False)
class Actor:
    """Somebody who acts: a client, or the workers of a queue."""

    name: str
    thread: greenlet
    wake_at: float = 0.0
    deadline: float = math.inf  # of the invocation that it runs, in seconds of the clock
    skew_ms: int = 0  # of the machine that runs that invocation
    machine: str = ""  # its name, another one after each cold start
    is_dying: bool = False
    may_crash: bool = False


@dataclass
class Stage:
    """All actors, and whose turn it is."""

    clock: Clock
    random: Random
    actors: list[Actor] = field(default_factory=list)
    turns: int = 0

    def enter(self, name: str, act: Callable[[], None]) -> Actor:
        """A new actor, whose turn comes at some time from now on."""
        actor = Actor(name, greenlet(act), wake_at=self.clock.monotonic())
        self.actors.append(actor)
        return actor

    @property
    def current(self) -> Actor:
        """Who has the turn."""
        thread = getcurrent()
        return next(actor for actor in self.actors if actor.thread is thread)

    def give_way(self, seconds: float = 0.0) -> None:
        """End the turn of the current actor, for at least so long. It may not come back from it."""
        actor = self.current
        if actor.is_dying:
            raise Crash  # a clean-up tries to call: the dead call nobody
        actor.wake_at = self.clock.monotonic() + seconds
        actor.thread.parent.switch()
        if self.clock.monotonic() >= actor.deadline:
            actor.is_dying = True
            raise Crash  # Lambda ends what takes too long

    def ready(self) -> list[Actor]:
        """Who could have the next turn."""
        now = self.clock.monotonic()
        return [actor for actor in self.actors if actor.wake_at <= now]

    def next_wake(self) -> float:
        """When somebody is ready, at the earliest."""
        return min((actor.wake_at for actor in self.actors), default=math.inf)

    def turn(self, actor: Actor, *, crash: bool = False) -> None:
        """Give one actor a turn, in which it may crash instead of going on."""
        self.turns += 1
        if crash:
            actor.is_dying = True
            actor.thread.throw(Crash)
        else:
            actor.thread.switch()
        if actor.thread.dead:
            self.actors.remove(actor)
