"""Progress of a command with many runs: a bar on a terminal, otherwise plain lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from fanfold_cli.progress import progress_bar

EVERY_SECONDS = 10.0


@contextmanager
def shown(total: int) -> Iterator[Callable[[int], None]]:
    """Yields a function to call after each seed, with the number of finished seeds."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        with progress_bar("Simulating", total=total, unit="seeds") as bar:
            yield bar.reach
        return
    began = said = time.monotonic()

    def say(done: int) -> None:
        nonlocal said
        now = time.monotonic()
        if now - said < EVERY_SECONDS:
            return
        said, rate = now, done / (now - began)
        left = timedelta(seconds=round((total - done) / rate))
        print(f"{done:,} of {total:,} seeds, {rate:.1f}/s, {left} left", file=sys.stderr)

    yield say
