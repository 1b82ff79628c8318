"""How fast one worker may write: additive increase, multiplicative decrease. Pure.

The rate counts, not what is in flight: one worker with one call in flight sends 4,500 entries a
second, more than a cold table takes. A throttle takes off in proportion to how much was throttled,
as DCTCP does (Alizadeh and others, SIGCOMM 2010): near the limit, where a batch now and then loses
an entry, the rate stays near the limit; where nearly all is refused, it halves each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

# What is not used is kept for so long: it makes up for the time that a worker spends on the ledger
# between two segments.
BURST_SECONDS = 0.25
# ... and at least so many entries, so that a small publish goes out at once.
BURST_ENTRIES = 250
# The throttled share is looked at so often: some round trips, or it would be told late and twice.
WINDOW_SECONDS = 0.1
# Back at the ceiling 20 s after the worst. With it, about 1 % are throttled where the table itself
# is the limit: what is gained in a window (0.5 %) is lost with half of the throttled share.
INCREASE_PER_SECOND = 0.05
# So that a worker always finds out whether the table takes something again: a chunk a second.
SLOWEST = 25.0


@dataclass
class Pace:
    """The pace of one warm worker on one lane, at most `ceiling` entries a second."""

    ceiling: float
    rate: float = field(init=False)
    _tokens: float = field(init=False)
    _at: float = field(init=False, default=0.0)
    _window_ends: float = field(init=False, default=0.0)
    _answered: int = field(init=False, default=0)
    _throttled: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.rate = self.ceiling
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
        if now < self._window_ends:
            return
        if self._throttled:
            self._advance(now)
            share = self._throttled / self._answered
            self.rate = max(min(SLOWEST, self.ceiling), self.rate * (1 - share / 2))
        self._window_ends = now + WINDOW_SECONDS
        self._answered = self._throttled = 0

    def _advance(self, now: float) -> None:
        """Let tokens come back, and the rate rise, for the time since the last look."""
        passed = max(0.0, now - self._at)
        self._at = now
        self.rate = min(self.ceiling, self.rate + self.ceiling * INCREASE_PER_SECOND * passed)
        self._tokens = min(self._burst(), self._tokens + self.rate * passed)

    def _burst(self) -> float:
        return max(BURST_ENTRIES, self.rate * BURST_SECONDS)
