"""How often one publisher publishes, and one user follows: a pure decision over one number.

It is a bucket of `limit` tokens that refills in `period_ms`. Only one time is stored: until when
the counted requests use up the rate (the generic cell rate algorithm, GCRA). It fits into a row
that is written anyway, and no timer runs. Requests have times in epoch milliseconds, but the stored
time is in nanoseconds. In microseconds, 59,999 a minute would be rounded to 60,000; in whole
milliseconds, to 30,000.
"""

from __future__ import annotations

from typing import NamedTuple

_MS = 1_000_000  # in nanoseconds
_MINUTE_MS = 60_000
_HOUR_MS = 60 * _MINUTE_MS
_DAY_MS = 24 * _HOUR_MS
# A wait is given in the first unit of which it has two or more, else in seconds.
_UNITS = ((_HOUR_MS, "h"), (_MINUTE_MS, "min"))


class Rate(NamedTuple):
    """At most `limit` at once, and as many again in each `period_ms`; a `limit` of 0 is no rate."""

    limit: int
    period_ms: int

    @classmethod
    def a_minute(cls, limit: int) -> Rate:
        return cls(limit, _MINUTE_MS)

    @classmethod
    def a_day(cls, limit: int) -> Rate:
        return cls(limit, _DAY_MS)

    @property
    def interval_ns(self) -> int:
        """How much of the period one request takes."""
        return self.period_ms * _MS // self.limit

    def room(self, now_ms: int) -> int:
        """The latest `used_until` at which one more at `now_ms` keeps to the rate."""
        return at(now_ms) + (self.limit - 1) * self.interval_ns

    def wait_ms(self, used_until: int, now_ms: int) -> int:
        """How long after `now_ms` there is room for one more; 0 if there is now."""
        return max(0, -((self.room(now_ms) - used_until) // _MS))

    def after(self, used_until: int, now_ms: int) -> int:
        """`used_until` after one more is counted at `now_ms`. A rest saves up at most `limit`.

        It never goes back, in whatever order requests are counted.
        """
        return max(used_until, at(now_ms)) + self.interval_ns


def at(now_ms: int) -> int:
    """The latest `used_until` at which the rate is unused at `now_ms`: that time in nanoseconds."""
    return now_ms * _MS


def spoken(wait_ms: int) -> str:
    """A wait for a person, such as `20 s` or `3 h`; never shorter than it is."""
    unit, name = next((each for each in _UNITS if wait_ms >= 2 * each[0]), (1000, "s"))
    return f"{-(-wait_ms // unit)} {name}"
