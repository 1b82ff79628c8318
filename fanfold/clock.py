"""Time, sleep and randomness. Only this module uses them, so that a simulation can replace it."""

import random as _random
import time as _time
import uuid as _uuid
from collections.abc import Iterator as _Iterator


def now_ms() -> int:
    """Milliseconds since the epoch, UTC."""
    return _time.time_ns() // 1_000_000


def monotonic() -> float:
    """Seconds of a clock that never goes back; only differences are meaningful."""
    return _time.monotonic()


def sleep(seconds: float) -> None:
    """Wait. Only for short, bounded waits, because Lambda bills them."""
    _time.sleep(seconds)


# Less is no jump: `now_ms` cuts off fractions of a millisecond.
_JUMP_SECONDS = 0.1


class Lasting:
    """Seconds by whichever clock says more: the timer of what a container keeps for a while.

    Lambda may freeze a container between two requests, and the monotonic clock with it. Then the
    wall clock jumps ahead of it. Every jump ahead counts, also that of a wall clock set ahead; one
    that is set back is ignored.
    """

    def __init__(self) -> None:
        self._missed, self._lead = 0.0, now_ms() / 1000 - monotonic()

    def __call__(self) -> float:
        """The time now, in seconds; only differences are meaningful."""
        now = monotonic()
        lead = now_ms() / 1000 - now
        if not 0.0 <= (ahead := lead - self._lead) <= _JUMP_SECONDS:
            self._missed, self._lead = self._missed + max(0.0, ahead), lead
        return now + self._missed


def chance() -> float:
    """A random number in [0, 1), for jitter."""
    return _random.random()


def new_id() -> str:
    """A random id of 32 hex digits, for a post that came without a key."""
    return _uuid.uuid4().hex


def tries(attempts: int, backoff_seconds: float) -> _Iterator[int]:
    """Count attempts from 0, with a pause before each but the first.

    The pause is random, up to `backoff_seconds` and then up to twice as long each time (full jitter
    as in "Exponential Backoff and Jitter", AWS Architecture Blog).
    """
    for attempt in range(attempts):
        if attempt:
            sleep(chance() * backoff_seconds * 2 ** (attempt - 1))
        yield attempt
