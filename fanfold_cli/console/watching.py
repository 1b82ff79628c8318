"""The state that pages get. One refresh serves all pages, made when it is due and a page asks.

A page asks only while it is visible, so nothing is read while nobody looks.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fanfold import clock
from fanfold_cli.aws import EXPECTED
from fanfold_cli.console import rings, wording
from fanfold_cli.console.readers import LATE_SECONDS, ConsoleReader
from fanfold_cli.console.server import Content
from fanfold_cli.console.stack_reading import DEPTH_CALLS, Spent, StackReading
from fanfold_cli.console.views import HURT, Event, State
from fanfold_cli.deliveries import pauses
from fanfold_cli.health.reading import queues
from fanfold_cli.stack import Deployment
from fanfold_cli.users.acting import client_of

LOCAL_SECONDS: Final = 1.0
AWS_SECONDS: Final = 5.0
READERS: Final = 3
# For a request without an answer, retries included.
PATIENCE_SECONDS: Final = 3.0
EVENTS: Final = 50


@dataclass
class Story:
    """What has happened, in short sentences, newest last; thread-safe."""

    lines: deque[Event] = field(default_factory=lambda: deque(maxlen=EVENTS))
    told: Callable[[str], None] = lambda _: None
    _number: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, kind: str, text: str, at: float | None = None) -> None:
        """Add an event that happened `at` this time, by default now."""
        with self._lock:
            self._number += 1
            when = clock.now_ms() / 1000 if at is None else at
            self.lines.append(Event(self._number, when, kind, text))
        self.told(text)

    def follow(self, before: State, after: State) -> State:
        """Add the events between two states; return the later one with headline and events."""
        for at, kind, text in wording.events(before, after):
            self.add(kind, text, at)
        with self._lock:
            lines = tuple(self.lines)
        return replace(after, headline=wording.headline(after), events=lines)


@dataclass
class Movement:
    """How fast entries come, and when the last one came."""

    at: float = 0.0
    delivered: dict[str, int] = field(default_factory=dict)
    rate: float = 0.0
    moved_at: float = 0.0

    def see(self, now: float, delivered: dict[str, int]) -> None:
        """Note the delivered entries of each fan-out at this time of the monotonic clock."""
        new = sum(
            max(0, count - self.delivered.get(ref_id, 0)) for ref_id, count in delivered.items()
        )
        if self.at and now > self.at:
            self.rate = 0.5 * self.rate + 0.5 * new / (now - self.at)
        if new or not self.at or delivered.keys() != self.delivered.keys():
            self.moved_at = now
        self.at, self.delivered = now, delivered


@dataclass
class Refreshing:
    """Refreshes the state when it is due and a page asks.

    Slow look-ups run in a thread, and the next refresh uses them.
    """

    state: State
    read: Callable[[State], State]  # makes the next state from the last
    look_up: Callable[[], None] = lambda: None
    story: Story = field(default_factory=Story)
    served: State | None = None  # the last that a page got, if any
    _due: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _looking: threading.Thread | None = None
    _failed: str = ""  # why the last look-up failed

    def content(self) -> Content:
        """The state as a page gets it."""
        self.served = self.current()
        return self.served.content()

    def current(self) -> State:
        with self._lock:
            if clock.monotonic() >= self._due:
                self._refresh()
                self._due = clock.monotonic() + self.state.every_seconds
                self._look_up_beside()
            return self.state

    def _look_up_beside(self) -> None:
        if self._looking is None or not self._looking.is_alive():
            self._looking = threading.Thread(target=self._looked_up, daemon=True)
            self._looking.start()

    def _looked_up(self) -> None:
        try:
            self.look_up()
            failed = ""
        except EXPECTED as error:
            failed = str(error)
        if failed and failed != self._failed:
            self.story.add(HURT, f"Followers and readers cannot be looked up: {failed}")
        self._failed = failed

    def _refresh(self) -> None:
        before = self.state
        try:
            after = self.read(before)
        except EXPECTED as error:
            after = replace(before, failure=str(error))
        self.state = self.story.follow(before, after)


@dataclass
class Watching:
    """Reads a deployment for the page; `users` are the readers that it shows."""

    deployment: Deployment
    users: Sequence[str] = ()
    movement: Movement = field(default_factory=Movement)

    def __post_init__(self) -> None:
        self._reading = StackReading(self.deployment)
        self._readers = [reader_of(self.deployment, user) for user in self.users[:READERS]]
        self._every_seconds = 0.0

    def read(self, before: State) -> State:
        """The state after this one; raises errors of AWS and of the product."""
        reading, now_ms, readers = self._reading, clock.now_ms(), self._readers
        self._every_seconds = before.every_seconds
        reading.spent = Spent(readers=len(readers))
        seen = [each.entries[0]["ref_id"] for each in readers if each.entries]
        rows, listed = reading.fanouts(seen)
        count = listed.counts["open"]
        chosen = reading.choose(rows)
        found = reading.found(chosen) if chosen else ()
        ring = rings.view(chosen, found=found) if chosen else None
        others = [rings.view(row, is_largest=False) for row in rows if row != chosen]
        self.movement.see(
            clock.monotonic(), {each.ref_id: each.entries for each in (ring, *others) if each}
        )
        depths, paused = queues(self.deployment), pauses.read(self.deployment)
        reading.spent.queue_calls = DEPTH_CALLS + len(paused.lanes)  # Lambda's are free
        is_aws = not self.deployment.is_local
        rate_at, rate = reading.rate if is_aws else (0.0, self.movement.rate)
        return replace(
            before,
            read_at=now_ms / 1000,
            failure="",
            status=reading.status(listed, depths, paused, now_ms),
            ring=ring,
            others=tuple(others),
            open=count,
            stalled=listed.counts["stalled"],
            rate=rate,
            rate_at=rate_at,
            queues=depths,
            paused=paused,
            readers=tuple(reader.view() for reader in readers),
            still_seconds=clock.monotonic() - self.movement.moved_at if count else 0.0,
            cost=reading.spent.sentence(before.every_seconds) if is_aws else "",
        )

    def look_up(self) -> None:
        """Read timelines and what changes slowly, and find followers: many sequential calls."""
        for reader in self._readers:
            reader.look(slowest=max(LATE_SECONDS, self._every_seconds))
        self._reading.read_background()
        chosen = self._reading.chosen
        if chosen is not None:
            self._find_readers(self._reading.take_sample(chosen))

    def _find_readers(self, sampled: Sequence[str]) -> None:
        """On the local engine, choose three followers if none was named: signing in is free."""
        if self.deployment.is_local and not self._readers and len(sampled) >= READERS:
            step = len(sampled) // READERS
            some = sampled[::step][:READERS]
            self._readers = [reader_of(self.deployment, user) for user in some]


def reader_of(deployment: Deployment, user: str) -> ConsoleReader:
    """A reader whose requests do not delay a refresh for long."""
    return ConsoleReader(user, lambda name: client_of(deployment, name, seconds=PATIENCE_SECONDS))


def first_state(deployment: Deployment, *, may_operate: bool) -> State:
    """What is known before the first refresh."""
    return State(
        where=deployment.place,
        read_at=clock.now_ms() / 1000,
        every_seconds=LOCAL_SECONDS if deployment.is_local else AWS_SECONDS,
        is_protected=deployment.is_protected,
        may_operate=may_operate,
    )
