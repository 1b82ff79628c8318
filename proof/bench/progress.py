"""Progress on stderr, printed between the steps of a bench, so that none of it is measured."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def with_progress(what: str, steps: Iterable[T]) -> Iterator[T]:
    """Yield the steps; stderr shows how many are done and how long the rest will take.

    A terminal has one line that changes; elsewhere a line is printed at the end.
    """
    each = list(steps)
    live = sys.stderr.isatty()
    began = time.monotonic()
    for done, step in enumerate(each):
        if live:
            left = (time.monotonic() - began) / done * (len(each) - done) if done else None
            rest = "" if left is None else f", {left:.0f} s left"
            print(f"\r\033[K{what}: {done} of {len(each)}{rest}", end="", file=sys.stderr)
            sys.stderr.flush()
        yield step
    if not each:
        return
    passed = time.monotonic() - began
    start = "\r\033[K" if live else ""
    print(f"{start}{what}: {len(each)} of {len(each)} in {passed:.1f} s", file=sys.stderr)
