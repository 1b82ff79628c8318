"""A progress bar on stderr, with the rate and the remaining time."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

# Narrower terminals get a short bar and no elapsed time.
WIDE = 100
NARROW_BAR = 10


class _Rate(ProgressColumn):
    """Units a second: over the last half minute, and over the whole time once it is finished."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


@dataclass(frozen=True)
class Bar:
    progress: Progress
    task: TaskID

    def advance(self, count: int) -> None:
        self.progress.advance(self.task, count)

    def reach(self, count: int, *, total: int | None = None) -> None:
        """Set how many are done in all, and the `total` if it has changed."""
        self.progress.update(self.task, completed=count, total=total)


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
        TextColumn(unit),
        _Rate(),
        *elapsed,
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    )
    with progress:
        yield Bar(progress, progress.add_task(what, total=total))
