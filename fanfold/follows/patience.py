"""How long one operation on edges is tried: many short calls, and one deadline for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fanfold import clock
from fanfold.aws.retries import is_transient
from fanfold.errors import TryLater

# With jitter, the pauses between six attempts last 1.6 s at most, of the 10 s of a door. After the
# last attempt RELATE takes over: its message was sent before the first.
ATTEMPTS = 6
BACKOFF_SECONDS = 0.05
# No call begins after this, except the second of the two that raise a level. A call takes at most
# 3 s.
PATIENCE_SECONDS = 3.0

T = TypeVar("T")


def new_deadline() -> float:
    """The monotonic time at which an operation that begins now is given up."""
    return clock.monotonic() + PATIENCE_SECONDS


def retry_until(deadline: float, call: Callable[[], T]) -> T:
    """Repeat an idempotent call after transient errors; raises `TryLater` at the deadline."""
    reason = None
    for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):
        if clock.monotonic() >= deadline:
            break
        try:
            return call()
        except Exception as error:
            if not is_transient(error):
                raise
            reason = error
    raise _too_slow() from reason


def check(deadline: float) -> None:
    """Raise `TryLater` if the deadline has passed."""
    if clock.monotonic() >= deadline:
        raise _too_slow()


def _too_slow() -> TryLater:
    return TryLater("The followers table takes this follow too slowly; try again in a moment.")
