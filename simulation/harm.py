"""Which relations are out of order through an accident, and since when: posts may miss them."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

Pair = tuple[str, str]  # user, publisher


@dataclass
class Harm:
    """What accidents did to edges, until a repair that began later was done."""

    _times: dict[Pair, list[tuple[float, float]]] = field(default_factory=lambda: defaultdict(list))

    def begins(self, pair: Pair, now_ms: float) -> None:
        self._times[pair].append((now_ms, math.inf))

    def is_repaired(self, begun_ms: float, now_ms: float) -> None:
        """A repair of everything that began at `begun_ms` has come to its end."""
        for pair, times in self._times.items():
            self._times[pair] = [
                (begin, now_ms if begin < begun_ms and end == math.inf else end)
                for begin, end in times
            ]

    def touches_any(self, publisher: str, begin_ms: float, end_ms: float) -> bool:
        """Whether any relation to a publisher was out of order at some time of an interval."""
        pairs = [pair for pair in self._times if pair[1] == publisher]
        return any(self.touches(pair, begin_ms, end_ms) for pair in pairs)

    def touches(self, pair: Pair, begin_ms: float, end_ms: float) -> bool:
        """Whether the relation was out of order at some time of an interval."""
        times = self._times.get(pair, ())
        return any(begin <= end_ms and end >= begin_ms for begin, end in times)
