"""What a command shows on stderr during a wait: a bar, or what it waits for."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fanfold_cli.terminal import say

# Importing rich takes a tenth of a second, and most commands end before they draw anything.
if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Shorter waits are not announced.
PATIENCE_SECONDS = 1.5

# Between two lines of progress, if stderr is not a terminal.
LINE_SECONDS = 10.0


@dataclass(frozen=True)
class Bar:
    progress: Progress
    task: TaskID

    def advance(self, count: int) -> None:
        self.progress.advance(self.task, count)

    def reach(self, count: int, *, total: int | None = None) -> None:
        """Set how many are done, and the `total` if it has changed."""
        self.progress.update(self.task, completed=count, total=total)


# Held during a bar or a wait: nested ones show nothing.
_shown = threading.Lock()


@contextmanager
def waiting_for(what: str, *, is_said: bool = False) -> Iterator[None]:
    """If the block takes long, say what it waits for: in a line, or with a spinner on a terminal.

    If it `is_said` already, only a terminal gets the spinner. Only the main thread shows anything.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not _shown.acquire(blocking=False):
        yield
        return
    notice = _Notice(what, is_said)
    timer = threading.Timer(PATIENCE_SECONDS, notice.show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        notice.end()
        _shown.release()


class _Notice:
    """Shown by a timer's thread and ended by the main thread, in either order."""

    def __init__(self, what: str, is_said: bool) -> None:
        self._what, self._is_said = what, is_said
        self._lock, self._has_ended = threading.Lock(), False
        self._spinner: Progress | None = None

    def show(self) -> None:
        from fanfold_cli import drawing

        with self._lock:
            if self._has_ended:
                return
            if drawing.is_terminal():
                self._spinner = drawing.spinner(f"Waiting for {self._what}")
                self._spinner.start()
            elif not self._is_said:
                say(f"Waiting for {self._what}.")

    def end(self) -> None:
        with self._lock:
            self._has_ended = True
            if self._spinner is not None:
                self._spinner.stop()


@contextmanager
def progress_bar(what: str, *, total: int | None, unit: str) -> Iterator[Bar]:
    """Show the bar until the block ends; a `total` of None is unknown."""
    from fanfold_cli import drawing

    progress = drawing.bar(unit)
    is_first = _shown.acquire(blocking=False)
    try:
        with progress, _lines(progress, unit, is_needed=not drawing.is_terminal()):
            yield Bar(progress, progress.add_task(what, total=total))
    finally:
        if is_first:
            _shown.release()


def go_through(steps: Iterable[int], what: str, *, total: int | None, unit: str) -> None:
    """Do the steps, with a bar that advances by the count that each of them yields."""
    with progress_bar(what, total=total, unit=unit) as bar:
        for count in steps:
            bar.advance(count)


def unit_of(total: float | None, unit: str) -> str:
    """The unit, a plural, in the number that agrees with the total."""
    if total != 1:
        return unit
    return f"{unit.removesuffix('ies')}y" if unit.endswith("ies") else unit.removesuffix("s")


@contextmanager
def _lines(progress: Progress, unit: str, *, is_needed: bool) -> Iterator[None]:
    """Print progress every ten seconds: a pipe shows no bar, and silence looks like a hang."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(LINE_SECONDS):
            for task in progress.tasks:
                of = "" if task.total is None else f" of {task.total:,.0f}"
                agreeing = unit_of(task.total, unit)
                say(f"{task.description}: {task.completed:,.0f}{of} {agreeing}.")

    teller = threading.Thread(target=tell, daemon=True)
    if is_needed:
        teller.start()
    try:
        yield
    finally:
        ended.set()
        if is_needed:
            teller.join()
