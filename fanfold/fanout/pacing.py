"""How fast one worker may write: additive increase, multiplicative decrease. Pure.

The rate counts, not what is in flight: one worker with one call in flight sends 4,500 entries a
second, more than a cold table takes. A throttle takes off in proportion to how much was throttled,
as DCTCP does (Alizadeh and others, SIGCOMM 2010): near the limit, where a batch now and then loses
an entry, the rate stays near the limit; where nearly all is refused, it falls to what was taken.
Nobody knows beforehand what a table takes, so a new worker begins slowly and doubles until it is
throttled or at its ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# What is not used is kept for so long: it makes up for most of the time that a worker spends on the
# ledger between two segments, and a lane goes beyond its rate by no more than that.
BURST_SECONDS = 0.1
# ... or, unless a lane says otherwise, so many entries, so that a small publish goes out at once.
BURST_ENTRIES = 250
# The throttled share is looked at so often: some round trips, or it would be told late and twice.
WINDOW_SECONDS = 0.1
# A new worker begins with this share of its ceiling, because a cold table takes an eighth of the
# default budget, and doubles so often: it is at the ceiling after 0.1 s. Half of each would spare a
# cold table 2 % of throttles, and cost a fan-out at the full rate as much time.
FIRST_SHARE = 1 / 4
DOUBLING_SECONDS = 0.05
# Back at the ceiling about 20 s after the worst.
INCREASE_PER_SECOND = 0.05
# It rises so fast only when nothing was throttled for so long, and before that in proportion: near
# the limit it creeps, so that few are throttled however far below the ceiling the limit is.
CLEAN_SECONDS = 2.0
# So that a worker always finds out whether the table takes something again: a chunk a second,
SLOWEST = 25.0
# and never less than a cold table takes of the default budget, about an eighth. A table that takes
# less is left to the retry budget; and where a part is throttled whatever the rate, as by one hot
# partition among many, to go slower helps nobody.
SLOWEST_SHARE = 1 / 8


@dataclass
class Pace:
    """The pace of one warm worker on one lane, at most `ceiling` entries a second.

    So many as `burst` may go at once after a rest, however slow the pace.
    """

    ceiling: float
    burst: int = BURST_ENTRIES
    rate: float = field(init=False)
    _tokens: float = field(init=False)
    _at: float | None = field(init=False, default=None)
    _clean: float | None = field(init=False, default=None)  # seconds since a throttle, if any
    _window_ends: float = field(init=False, default=0.0)
    _answered: int = field(init=False, default=0)
    _throttled: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.rate = max(self._slowest(), self.ceiling * FIRST_SHARE)
        self._tokens = self._burst()

    def may_send_at(self, entries: int, now: float) -> float:
        """When so many entries may go: now, or a time that is yet to come."""
        self._advance(now)
        missing = min(entries, self._burst()) - self._tokens
        return now if missing <= 0 else now + missing / self.rate

    def spend(self, entries: int) -> None:
        """So many entries are sent."""
        self._tokens -= entries

    def answered(self, entries: int, throttled: int, now: float) -> None:
        """Of so many entries, so many were throttled."""
        self._answered += entries
        self._throttled += throttled
        if throttled:
            self._advance(now)
            self._clean = 0.0
        if now < self._window_ends:
            return
        if self._throttled:
            share = self._throttled / self._answered
            # A small share takes off half of itself, the whole all.
            kept = 1 - share * (1 + share) / 2
            self.rate = max(self._slowest(), self.rate * kept)
        self._window_ends = now + WINDOW_SECONDS
        self._answered = self._throttled = 0

    def _advance(self, now: float) -> None:
        """Let tokens come back, and the rate rise, for the time since the last look."""
        passed = 0.0 if self._at is None else max(0.0, now - self._at)
        self._at = now
        if self._clean is None:
            # Ten doublings reach any ceiling; those of an idle hour would overflow.
            rate = self.rate * 2 ** min(passed / DOUBLING_SECONDS, 10)
        else:
            self._clean += passed
            speed = min(1.0, self._clean / CLEAN_SECONDS)
            rate = self.rate + self.ceiling * INCREASE_PER_SECOND * speed * passed
        self.rate = min(self.ceiling, rate)
        self._tokens = min(self._burst(), self._tokens + self.rate * passed)

    def _slowest(self) -> float:
        return max(min(SLOWEST, self.ceiling), self.ceiling * SLOWEST_SHARE)

    def _burst(self) -> float:
        return max(self.burst, self.rate * BURST_SECONDS)
