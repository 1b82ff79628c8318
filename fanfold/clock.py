"""The only module that reads the clock, sleeps or draws chance; a simulation replaces it whole."""

import random as _random
import time as _time
import uuid as _uuid


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
