"""The only module that reads the clock, sleeps or draws chance; a simulation replaces it whole."""

import random as _random
import time as _time
import uuid as _uuid
from collections.abc import Iterator as _Iterator


def now_ms() -> int:
    """Milliseconds since the epoch, UTC."""
    return _time.time_ns() // 1_000_000


def monotonic() -> float:
    """Seconds of a clock that never goes back; only differences mean anything."""
    return _time.monotonic()


def sleep(seconds: float) -> None:
    """Wait; for short, bounded waits only, because a waiting function is paid for."""
    _time.sleep(seconds)


def chance() -> float:
    """A random number in [0, 1), for jitter."""
    return _random.random()


def new_id() -> str:
    """A fresh id of 32 hex digits, for a post that its publisher did not name."""
    return _uuid.uuid4().hex


def tries(attempts: int, backoff_seconds: float) -> _Iterator[int]:
    """The numbers of so many attempts, from 0, with a pause before each but the first.

    It is drawn at random up to `backoff_seconds`, and to twice as much each time (full jitter:
    "Exponential Backoff and Jitter", AWS Architecture Blog).
    """
    for attempt in range(attempts):
        if attempt:
            sleep(chance() * backoff_seconds * 2 ** (attempt - 1))
        yield attempt
