"""Bars and spinners on a terminal, drawn by rich; imported only when something is drawn."""

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from fanfold_cli.progress import unit_of

# A rate over a shorter time would be too inexact.
MEASURED_SECONDS = 1.0

# Narrower terminals get a short bar and no elapsed time.
WIDE = 100
NARROW_BAR = 10


def is_terminal() -> bool:
    """Whether stderr is a terminal."""
    return Console(stderr=True).is_terminal


class _Rate(ProgressColumn):
    """Units a second: over the last half minute, or over the whole time at the end."""

    def render(self, task: Task) -> Text:
        if (task.elapsed or 0.0) < MEASURED_SECONDS:
            return Text("")
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


class _Unit(ProgressColumn):
    """The unit: `1/1 edge`, `1/2 edges`."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        super().__init__()

    def render(self, task: Task) -> Text:
        return Text(unit_of(task.total, self._unit))


def spinner(what: str) -> Progress:
    """A spinner that disappears at its end; not started yet."""
    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    made = Progress(*columns, console=Console(stderr=True), transient=True)
    made.add_task(escape(what))
    return made


def bar(unit: str) -> Progress:
    """A bar that counts `unit`, a plural; not started yet, and without a task."""
    console = Console(stderr=True)
    is_wide = console.width >= WIDE
    elapsed = (TimeElapsedColumn(), TextColumn("elapsed,")) if is_wide else ()
    return Progress(
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
