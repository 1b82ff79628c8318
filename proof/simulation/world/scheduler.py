"""Virtual time: tasks that yield whenever they wait, and a scheduler that resumes one at a time.

A task is a greenlet, so the product's ordinary code can stop at every external call. There are two
orders. By seed: of all tasks that are due, the next is drawn, so the same seed is the same run.
Earliest first: for timed runs, where the order of two events follows from their times.
"""

from __future__ import annotations

import heapq
import math
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from random import Random
from typing import Any, Protocol, TypeAlias
from unittest.mock import patch

from greenlet import getcurrent, greenlet  # type: ignore[import-untyped]

from fanfold import clock as product_clock
from proof.model.clock import Clock
from proof.simulation.clients.spans import Span

# If a key is hot for hours and many orders retry it, a run takes up to 300,000.
MAX_TURNS = 600_000
# The queues store epoch seconds, which lose the clock's microseconds.
ROUNDING_SECONDS = 1e-6

Patch: TypeAlias = tuple[Any, str, Any]  # a module or class, an attribute of it, and its value


class Crash(BaseException):
    """The process of a task dies. No `except Exception` of the product catches it."""


class Endless(AssertionError):
    """The run does not come to rest."""


class Task(greenlet):  # type: ignore[misc]
    """A client, an invocation of a function, or a worker."""

    def __init__(self, run: Callable[[], object], hub: greenlet, name: str, number: int) -> None:
        super().__init__(run, hub)
        self.name = name
        self.number = number  # in the order in which tasks were started
        self.waits = 0  # also the number of its current wait; negative once it has ended
        # Of the invocation that it runs:
        self.environment = ""  # its name, a new one after each cold start
        self.deadline = math.inf  # in seconds of the clock
        self.skew_ms = 0  # of the environment's clock
        self.stopped = 0.0  # seconds for which its monotonic clock stood still
        self.work: Span | None = None
        self.messages: Sequence[Any] = ()  # of a queue, as they were received
        self.faults = 0  # kills, and failed or slow calls
        self.lands_ms = 0.0  # when the last of its abandoned writes lands
        self.may_crash = False
        self.is_dying = False


class Source(Protocol):
    """A source of work without a task, such as messages in a queue."""

    def ready(self) -> Sequence[Callable[[], object]]:
        """Actions that are possible now; one may be chosen instead of a task."""

    def next_change(self) -> float:
        """When there may be more actions, in seconds of the clock."""


@dataclass
class Scheduler:
    """All tasks, and the choice of the next one."""

    random: Random
    by_seed: bool = False  # else the earliest first
    clock: Clock = field(default_factory=Clock)
    turns: int = 0  # counted only by seed
    tasks: set[Task] = field(default_factory=set)
    sources: list[Source] = field(default_factory=list)  # used only by seed
    crashes: Callable[[], bool] = lambda: False  # asked at each turn of a task that may crash
    # Time, a number that orders equal times, a task or callback, and the task's wait that ends.
    _due: list[tuple[float, int, Task | Callable[[], object], int]] = field(default_factory=list)
    _ready: list[Task] = field(default_factory=list)
    _count: int = 0
    _hub: greenlet = field(default_factory=getcurrent)

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.clock.elapsed

    def now_ms(self) -> int:
        """Epoch milliseconds, as the clock of the current task's environment shows them."""
        return self.clock.now_ms() + getattr(getcurrent(), "skew_ms", 0)

    def monotonic(self) -> float:
        """Seconds, as the monotonic clock of the current task's environment shows them."""
        stopped: float = getattr(getcurrent(), "stopped", 0.0)
        return self.clock.elapsed - stopped

    @property
    def current(self) -> Task:
        """The task that runs now; callbacks have none."""
        task: Task = getcurrent()
        return task

    def at(self, when: float, callback: Callable[[], object]) -> None:
        """Call back at a time, between two turns of tasks."""
        self._push(when, callback, 0)

    def next_due(self) -> float:
        """When the next task or callback is due, in seconds of the clock; infinite if none is."""
        return self._due[0][0] if self._due else math.inf

    def start(self, run: Callable[[], object], name: str = "") -> Task:
        """Start a task that is due now."""
        task = Task(run, self._hub, name, self._count)
        self.tasks.add(task)
        self._push(self.now, task, 0)
        return task

    def sleep(self, seconds: float = 0.0) -> None:
        """Let the current task wait at least `seconds`; raises `Crash` if it must die."""
        self.wait(seconds)

    def freeze(self, seconds: float) -> None:
        """Stop the current task's process and its monotonic clock for a time."""
        task = getcurrent()
        task.stopped += seconds
        task.deadline += seconds
        self.wait(seconds)

    def wait(self, seconds: float | None) -> None:
        """Let the current task wait until it is woken, or for `seconds`."""
        task = getcurrent()
        if task.is_dying:
            raise Crash  # the product's clean-up calls, but a dead process cannot
        task.waits += 1
        if seconds is not None:
            self._push(self.clock.elapsed + seconds, task, task.waits)
        self._hub.switch()
        if self.clock.elapsed >= task.deadline:
            task.is_dying = True
            raise Crash  # Lambda ends an invocation at its time-out

    def wake(self, task: Task) -> None:
        """Resume a task that waits; only a callback may do so."""
        self._resume(task)

    def run(self, until: Callable[[], bool]) -> None:
        """Run until a condition holds.

        Raises `RuntimeError` if nothing is left to happen, and `Endless` after too many turns.
        """
        step = self._step_by_seed if self.by_seed else self._step_earliest
        while not until():
            step()

    def run_to(self, when: float) -> None:
        """Run until a time, even if nothing happens then."""
        self.at(when, lambda: None)
        self.run(lambda: self.now >= when)

    def _step_earliest(self) -> None:
        if not self._due:
            raise RuntimeError("Nothing is left to happen.")
        when, _, what, wait = heapq.heappop(self._due)
        self.clock.advance_to(when)
        if not isinstance(what, Task):
            what()
        elif what.waits == wait:
            self._resume(what)

    def _step_by_seed(self) -> None:
        if self.turns > MAX_TURNS:
            raise Endless(f"After {MAX_TURNS} turns the run has not come to rest.")
        if self._due and self._due[0][0] <= self.clock.elapsed:
            self._take_due()
        choices: list[Task | Callable[[], object]] = [*self._ready]
        for source in self.sources:
            choices += source.ready()
        if not choices:
            self.turns += 1
            changes = [source.next_change() for source in self.sources]
            self.clock.advance_to(min([self.next_due(), *changes]) + ROUNDING_SECONDS)
            return
        chosen = self.random.choice(choices)
        if isinstance(chosen, Task):
            self._ready.remove(chosen)
            crashes = chosen.may_crash and self.crashes()
            self.turns += 1
            self._resume(chosen, crashes=crashes)
        else:
            chosen()

    def _take_due(self) -> None:
        """Run due callbacks, and make due tasks ready, in order of their start."""
        due, clock = self._due, self.clock
        while due and due[0][0] <= clock.elapsed:
            what = heapq.heappop(due)[2]
            if isinstance(what, Task):
                insort(self._ready, what, key=_number)
            else:
                what()

    def _push(self, when: float, what: Task | Callable[[], object], wait: int) -> None:
        self._count += 1
        heapq.heappush(self._due, (when, self._count, what, wait))

    def _resume(self, task: Task, *, crashes: bool = False) -> None:
        if crashes:
            task.is_dying = True
            task.throw(Crash)
        else:
            task.switch()
        if task.dead:
            task.waits = -1
            self.tasks.discard(task)


_number = attrgetter("number")


@contextmanager
def patched(patches: Iterable[Patch]) -> Iterator[None]:
    """Replace attributes by other values for a while; an attribute may be new."""
    with ExitStack() as stack:
        for home, name, value in patches:
            stack.enter_context(patch.object(home, name, value, create=True))
        yield


def clock_patches(scheduler: Callable[[], Scheduler]) -> list[Patch]:
    """Patches of the product's clock, to the time of the current scheduler."""
    return [
        (product_clock, "now_ms", lambda: scheduler().now_ms()),
        (product_clock, "monotonic", lambda: scheduler().monotonic()),
        (product_clock, "sleep", lambda seconds: scheduler().sleep(seconds)),
        (product_clock, "chance", lambda: scheduler().random.random()),
        (product_clock, "new_id", lambda: f"{scheduler().random.getrandbits(128):032x}"),
    ]


def virtual_time(scheduler: Scheduler) -> AbstractContextManager[None]:
    """Run the product in this scheduler's time, for a while."""
    return patched(clock_patches(lambda: scheduler))
