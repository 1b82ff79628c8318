"""A progress bar with rate and time left, on stderr."""

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

# A terminal of fewer columns does without the time that has passed.
WIDE = 100
NARROW_BAR = 10


class _Rate(ProgressColumn):
    """How many a second, over the last half minute, or over all of it once it is finished."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s")


@dataclass(frozen=True)
class Bar:
    """What the work reports to."""

    progress: Progress
    task: TaskID

    def advance(self, count: int) -> None:
        """So many more are done."""
        self.progress.advance(self.task, count)

    def reach(self, count: int, *, total: int | None = None) -> None:
        """So many are done in all; `total` where it is only known now, or has changed."""
        self.progress.update(self.task, completed=count, total=total)


@contextmanager
def progress_bar(what: str, *, total: int | None, unit: str) -> Iterator[Bar]:
    """Show `what` with the number of `unit` done out of `total`, until the block ends."""
    console = Console(stderr=True)
    is_wide = console.width >= WIDE
    passed = (TimeElapsedColumn(), TextColumn("passed,")) if is_wide else ()
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn() if is_wide else BarColumn(NARROW_BAR),
        MofNCompleteColumn(),
        TextColumn(unit),
        _Rate(),
        *passed,
        TimeRemainingColumn(),
        TextColumn("left"),
        console=console,
    )
    with progress:
        yield Bar(progress, progress.add_task(what, total=total))
