"""The retries of a delivery: which entries are sent again, when, and how many. Pure."""

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from fanfold.aws.items import MAX_PUTS
from fanfold.fanout.pacing import MAX_IN_FLIGHT

# Full jitter: a random wait below base * 2^attempt, at most the cap (AWS Builders' Library,
# "Timeouts, retries, and backoff with jitter").
BACKOFF_BASE_SECONDS = 0.05
BACKOFF_CAP_SECONDS = 1.0
# From its third throttle on, an entry counts as a hot key, not as back-pressure from the table.
HOT_KEY_ATTEMPTS = 2
# How many entries one run may send again: this share of those written, and as many as may be in
# flight when a throttle begins. A table that throttles more gets time: the rest is handed back.
RETRY_SHARE = 0.2
RETRY_ENTRIES = MAX_PUTS * MAX_IN_FLIGHT


@dataclass
class Retries:
    """Entries by their edge, each to be sent again at its own time.

    `chance` draws from [0, 1). Times are seconds of any monotonic clock.
    """

    chance: Callable[[], float]
    _waiting: list[tuple[float, str]] = field(default_factory=list)  # a heap of (due time, edge)
    _attempts: dict[str, int] = field(default_factory=dict)  # failed ones, by edge
    _count: int = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[str]:
        return (edge for _, edge in self._waiting)

    @property
    def next_at(self) -> float:
        """When the first entry is due; infinity if there is none."""
        return self._waiting[0][0] if self._waiting else math.inf

    def add(self, edges: Sequence[str], now: float) -> None:
        """Let entries that were not written be sent again, each after its own back-off."""
        self._count += len(edges)
        for edge in edges:
            attempt = self._attempts.get(edge, 0)
            self._attempts[edge] = attempt + 1
            heapq.heappush(self._waiting, (now + self.backoff(attempt), edge))

    def take_due(self, now: float) -> list[str]:
        """Remove and return the entries that are due, at most a batch of them."""
        due: list[str] = []
        while self.next_at <= now and len(due) < MAX_PUTS:
            due.append(heapq.heappop(self._waiting)[1])
        return due

    def backoff(self, attempt: int) -> float:
        """Draw a wait in seconds; `attempt` counts the failed ones before."""
        ceiling = min(BACKOFF_CAP_SECONDS, BACKOFF_BASE_SECONDS * 2.0 ** min(attempt, 16))
        return self.chance() * ceiling

    def is_hot_key(self, edge: str) -> bool:
        return self._attempts.get(edge, 0) >= HOT_KEY_ATTEMPTS

    def exceed_budget(self, written: int) -> bool:
        """Whether too many entries were sent again in this run, which has written `written`."""
        return self._count > RETRY_ENTRIES + RETRY_SHARE * written
