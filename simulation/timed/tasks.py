"""Threads in virtual time: calls of one worker that are in flight at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from simulation.scheduler import Scheduler, Task

R = TypeVar("R")


class Running(Generic[R]):
    """A call in a task of its own; its result is waited for in virtual time."""

    def __init__(self, scheduler: Scheduler, call: Callable[[], R]) -> None:
        self._scheduler, self._call = scheduler, call
        self._ended: list[R | Exception] = []
        self._waiting: Task | None = None
        scheduler.start(self._run)

    def result(self) -> R:
        """What the call returns, or its error."""
        if not self._ended:
            self._waiting = self._scheduler.current
            self._scheduler.wait(None)
        (end,) = self._ended
        if isinstance(end, Exception):
            raise end
        return end

    def _run(self) -> None:
        try:
            self._ended.append(self._call())
        except Exception as error:  # noqa: BLE001 - for whoever asks for the result
            self._ended.append(error)
        if self._waiting is not None:
            waiting = self._waiting
            self._scheduler.at(self._scheduler.now, lambda: self._scheduler.wake(waiting))


@dataclass(frozen=True)
class Threads(Executor):
    """A pool of `count` threads, which are tasks."""

    scheduler: Scheduler
    count: int

    def submit(self, call: Callable[..., R], /, *args: Any, **more: Any) -> Any:
        """Call at once: whoever submits single calls submits no more than there are threads."""
        return Running(self.scheduler, partial(call, *args, **more))

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
    """What the calls return, made at the same time; raises the first one's error."""
    return [each.result() for each in [Running(scheduler, call) for call in calls]]
