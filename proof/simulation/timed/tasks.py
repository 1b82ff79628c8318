"""Threads in virtual time: calls of one worker that are in flight at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from proof.simulation.world.scheduler import Scheduler, Task

R = TypeVar("R")


class TaskEvent:
    """An event, as in `threading`, that one task waits for in virtual time."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_set = False
        self._waiting: Task | None = None

    def set(self) -> None:
        self._is_set = True
        if self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            self._scheduler.at(self._scheduler.now, lambda: self._scheduler.wake(waiting))

    def wait(self) -> None:
        if not self._is_set:
            self._waiting = self._scheduler.current
            self._scheduler.wait(None)


class TaskCall(Generic[R]):
    """A call in a separate task, whose result is awaited in virtual time."""

    def __init__(self, scheduler: Scheduler, call: Callable[[], R]) -> None:
        self._call = call
        self._ends: list[R | Exception] = []
        self._has_ended = TaskEvent(scheduler)
        scheduler.start(self._run)

    def result(self) -> R:
        """What the call returns, or its error."""
        self._has_ended.wait()
        (end,) = self._ends
        if isinstance(end, Exception):
            raise end
        return end

    def _run(self) -> None:
        try:
            self._ends.append(self._call())
        except Exception as error:  # noqa: BLE001 - raised to those who ask for the result
            self._ends.append(error)
        self._has_ended.set()


@dataclass(frozen=True)
class Threads(Executor):
    """A pool of `count` threads, which are tasks."""

    scheduler: Scheduler
    count: int

    def submit(self, call: Callable[..., R], /, *args: Any, **more: Any) -> Any:
        """Start the call immediately: there are never more single calls than threads."""
        return TaskCall(self.scheduler, partial(call, *args, **more))

    def map(
        self,
        fn: Callable[..., R],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[R]:
        """As many calls at a time as there are threads; with neither time-out nor chunks."""
        del timeout, chunksize
        waiting = iter(list(enumerate(zip(*iterables, strict=False))))
        results: dict[int, R] = {}

        def work() -> None:
            for number, arguments in waiting:
                results[number] = fn(*arguments)

        for thread in [self.submit(work) for _ in range(self.count)]:
            thread.result()
        return iter([results[number] for number in sorted(results)])


def side_by_side(scheduler: Scheduler, *calls: Callable[[], R]) -> list[R]:
    """Make the calls concurrently; return their results, or raise the first error."""
    return [each.result() for each in [TaskCall(scheduler, call) for call in calls]]
