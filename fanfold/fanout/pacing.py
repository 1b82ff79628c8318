"""How fast one worker may write: additive increase, multiplicative decrease. Pure.

It limits the rate, not the calls in flight: a single call at a time already sends 4,500 entries per
second, more than a cold table takes. A throttle lowers the rate in proportion to the share of
entries throttled, as DCTCP does (Alizadeh and others, SIGCOMM 2010): near the limit, where a batch
now and then loses an entry, the rate stays near the limit; where nearly all entries are refused, it
falls to what was accepted. What a table takes is not known in advance, so a new worker starts
slowly and doubles its rate until it is throttled or at its ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# Only a ceiling, far above what the pace allows: at 5.5 ms a call, 64 batches in flight are 290,000
# entries per second.
MAX_IN_FLIGHT = 64
# Unused rate is saved up for this long. It makes up for most of a worker's time on the ledger
# between two segments, and bounds how far a lane may exceed its rate.
BURST_SECONDS = 0.1
# At least this many entries may go at once, unless a lane says otherwise: enough for small posts.
BURST_ENTRIES = 250
# How often the throttled share is evaluated: once in a few round trips, because answers to calls
# sent before the rate fell would lower it a second time.
WINDOW_SECONDS = 0.1
# A new worker starts at this share of its ceiling, because a cold table takes an eighth of the
# default budget, and doubles at this interval: it reaches the ceiling after 0.1 s. Halving both
# would spare a cold table 2 % of its throttles, and make a fan-out at the full rate 2 % slower.
# Small fan-outs do not notice: they begin with a burst.
FIRST_SHARE = 1 / 4
DOUBLING_SECONDS = 0.05
# From the slowest rate back to the ceiling in about 20 s.
INCREASE_PER_SECOND = 0.05
# The increase reaches that speed after this long without a throttle, and grows linearly until then:
# near the limit the rate creeps, so that few entries are throttled wherever the limit is.
CLEAN_SECONDS = 2.0
# At least one batch per second, so that a worker notices when the table accepts writes again.
SLOWEST = 25.0
# And at least this share of its ceiling, unless a lane says otherwise. If a table takes less, the
# policy has a retry budget. If some entries are throttled at any rate, such as those of one hot
# partition, going slower helps nobody.
SLOWEST_SHARE = 1 / 8


@dataclass
class Pace:
    """The pace of one warm worker on one lane, at most `ceiling` entries per second.

    After a rest, `burst` entries may go at once, however slow the pace. A throttled table slows it
    down to `slowest` entries per second, by default a share of the ceiling.
    """

    ceiling: float
    burst: int = BURST_ENTRIES
    slowest: float | None = None
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
        """When that many entries may be sent: `now` or later."""
        self._advance(now)
        missing = min(entries, self._burst()) - self._tokens
        return now if missing <= 0 else now + missing / self.rate

    def spend(self, entries: int) -> None:
        self._tokens -= entries

    def answered(self, entries: int, throttled: int, now: float) -> None:
        """A call for `entries` was answered; `throttled` of them were not written."""
        self._answered += entries
        self._throttled += throttled
        if throttled:
            self._advance(now)
            self._clean = 0.0
        if now < self._window_ends:
            return
        if self._throttled:
            share = self._throttled / self._answered
            # A small share lowers the rate by half of itself, a share of 1 to the minimum.
            kept = 1 - share * (1 + share) / 2
            self.rate = max(self._slowest(), self.rate * kept)
        self._window_ends = now + WINDOW_SECONDS
        self._answered = self._throttled = 0

    def _advance(self, now: float) -> None:
        """Add tokens and raise the rate for the time that has passed since the last call."""
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
        wanted = self.ceiling * SLOWEST_SHARE if self.slowest is None else self.slowest
        return min(self.ceiling, max(SLOWEST, wanted))

    def _burst(self) -> float:
        return max(self.burst, self.rate * BURST_SECONDS)
