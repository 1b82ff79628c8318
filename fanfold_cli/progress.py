"""What a command shows on stderr while its user waits: a bar, or what it waits for."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fanfold_cli.console import say

# Nobody wonders about a shorter wait.
PATIENCE_SECONDS = 1.5

# A rate over less would be that of the clock.
MEASURED_SECONDS = 1.0

# Between two lines about a bar that is not on a terminal.
LINE_SECONDS = 10.0

# Narrower terminals get a short bar and no elapsed time.
WIDE = 100
NARROW_BAR = 10


class _Rate(ProgressColumn):
    """Units a second: over the last half minute, and over the whole time once it is finished."""

    def render(self, task: Task) -> Text:
        if (task.elapsed or 0.0) < MEASURED_SECONDS:
            return Text("")
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


class _Unit(ProgressColumn):
    """What is counted: `1/1 edge`, `1/2 edges`."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        super().__init__()

    def render(self, task: Task) -> Text:
        return Text(_of(task.total, self._unit))


def _of(total: float | None, unit: str) -> str:
    """The unit, which is a plural, as it agrees with a total."""
    if total != 1:
        return unit
    return f"{unit.removesuffix('ies')}y" if unit.endswith("ies") else unit.removesuffix("s")


@dataclass(frozen=True)
class Bar:
    progress: Progress
    task: TaskID

    def advance(self, count: int) -> None:
        self.progress.advance(self.task, count)

    def reach(self, count: int, *, total: int | None = None) -> None:
        """Set how many are done in all, and the `total` if it has changed."""
        self.progress.update(self.task, completed=count, total=total)


# Held while a bar or a wait is shown, or is about to be: what happens within it says nothing more.
_shown = threading.Lock()


@contextmanager
def waiting_for(what: str, *, is_said: bool = False) -> Iterator[None]:
    """Once the block takes long, say what it waits for: in one line, or by a spinner on a terminal.

    If it `is_said` already, a terminal gets the spinner and a pipe nothing. Threads beside the main
    one say nothing: that one waits for them.
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
    """Shown by a timer's thread and ended by the main one, in either order."""

    def __init__(self, what: str, is_said: bool) -> None:
        self._what, self._is_said = what, is_said
        self._lock, self._has_ended = threading.Lock(), False
        self._spinner: Progress | None = None

    def show(self) -> None:
        with self._lock:
            console = Console(stderr=True)
            if self._has_ended:
                return
            if console.is_terminal:
                columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
                self._spinner = Progress(*columns, console=console, transient=True)
                self._spinner.add_task(escape(f"Waiting for {self._what}"))
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
    console = Console(stderr=True)
    is_wide = console.width >= WIDE
    elapsed = (TimeElapsedColumn(), TextColumn("elapsed,")) if is_wide else ()
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn() if is_wide else BarColumn(NARROW_BAR),
        MofNCompleteColumn(),
        _Unit(unit),
        _Rate(),
        *elapsed,
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    )
    is_first = _shown.acquire(blocking=False)
    try:
        with progress, _lines(progress, unit, is_needed=not console.is_terminal):
            yield Bar(progress, progress.add_task(what, total=total))
    finally:
        if is_first:
            _shown.release()


@contextmanager
def _lines(progress: Progress, unit: str, *, is_needed: bool) -> Iterator[None]:
    """Every ten seconds say how far it is: a pipe shows no bar, and silence looks like a hang."""
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(LINE_SECONDS):
            for task in progress.tasks:
                of = "" if task.total is None else f" of {task.total:,.0f}"
                say(f"{task.description}: {task.completed:,.0f}{of} {_of(task.total, unit)}.")

    teller = threading.Thread(target=tell, daemon=True)
    if is_needed:
        teller.start()
    try:
        yield
    finally:
        ended.set()
        if is_needed:
            teller.join()
