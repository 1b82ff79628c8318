"""Relations that accidents have damaged, and since when: posts may miss them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field

# Reads lag for five seconds, and a container keeps a head for ten while the table throttles.
KNOWN_MS = 15_000
Pair = tuple[str, str]  # user, publisher


@dataclass
class Damage:
    """Damage by accidents, until a repair that began later has finished."""

    # By how much a user's count of follows exceeds the rows, because one of them was restored.
    miscounted: Counter[str] = field(default_factory=Counter)
    # When that was, until the doctor has counted them.
    miscounted_ms: dict[str, float] = field(default_factory=dict)
    is_ledger_restored: bool = False
    are_rates_restored: bool = False
    # The entries, by user and `ref_id`, that a restore has lost: their posts are delivered again.
    lost_entries: set[tuple[str, str]] = field(default_factory=set)
    # Users whose row of marks was restored to an earlier moment, and not repaired.
    unmarked: set[str] = field(default_factory=set)
    undone: set[Pair] = field(default_factory=set)  # whose rows were restored to an earlier moment
    # Relations whose orders to RELATE were dropped: only the doctor reconciles them.
    unrelated: set[Pair] = field(default_factory=set)
    # What the doctor may find in its first examination in the calm.
    known: set[Pair] = field(default_factory=set)
    # When the head of the channels was restored, and repaired: pages may lack what is in channels.
    headless_ms: tuple[float, float] = (math.inf, math.inf)
    _times: dict[Pair, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def begins(self, pair: Pair, now_ms: float) -> None:
        self._times[pair].append((now_ms, math.inf))

    def is_repaired(self, begun_ms: float, now_ms: float, users: set[str]) -> None:
        """A complete repair that began at `begun_ms` has finished; these `users` have rows."""
        since, until = self.headless_ms
        if since < begun_ms and until == math.inf:
            self.headless_ms = since, now_ms + KNOWN_MS
        self.miscounted_ms = {
            user: at
            for user, at in self.miscounted_ms.items()
            if user not in users or at >= begun_ms
        }
        for pair, times in self._times.items():
            self._times[pair] = [
                (begin, now_ms if begin < begun_ms and end == math.inf else end)
                for begin, end in times
            ]

    def is_headless(self, begin_ms: float, end_ms: float) -> bool:
        """Whether the head may have been an old one at some time of an interval."""
        since, until = self.headless_ms
        return since <= end_ms and begin_ms <= until

    def touches_any(self, publisher: str, begin_ms: float, end_ms: float) -> bool:
        """Whether any relation to a publisher was damaged at some time of an interval."""
        pairs = [pair for pair in self._times if pair[1] == publisher]
        return any(self.touches(pair, begin_ms, end_ms) for pair in pairs)

    def lasting(self) -> set[Pair]:
        """The damage that no repair has ended."""
        return {
            pair for pair, times in self._times.items() if any(end == math.inf for _, end in times)
        }

    def touches(self, pair: Pair, begin_ms: float, end_ms: float) -> bool:
        """Whether the relation was damaged at some time of an interval."""
        times = self._times.get(pair, ())
        return any(begin <= end_ms and end >= begin_ms for begin, end in times)
