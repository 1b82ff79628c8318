"""How many busy containers the one row of the head carries, by what each knows of it."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from random import Random
from typing import Any
from unittest.mock import patch

from fanfold import clock, names
from fanfold.channels.head import Head
from fanfold.channels.known_head import KnownHead
from fanfold.errors import TryLater

# Of one partition, so of one row: 3,000 read units a second. An eventual read of the full head, of
# 8 KB, takes one.
READS_A_SECOND = 3_000
# Pages that a container answers in a second: with fewer it reads the head less often, with more it
# is more often throttled.
PAGES_A_SECOND = 4.0
SECONDS, WARM_SECONDS = 30.0, 10.0


@dataclass
class HeadRow:
    """The row of the head; what goes over its partition's units is throttled. No burst is saved."""

    table: str = names.PUBLISHERS.name
    left: float = 0.0
    filled_at: float = 0.0

    def wanted(self) -> dict[str, Any]:
        return {}

    def takes(self, now: float) -> bool:
        """Whether one more read is answered; the partition's units come back evenly."""
        most = READS_A_SECOND / 100  # of ten milliseconds
        self.left = min(most, self.left + (now - self.filled_at) * READS_A_SECOND)
        self.filled_at = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


@dataclass(frozen=True)
class WarmContainers:
    """What the pages of some warm containers saw."""

    containers: int
    pages: int
    refused: int  # 503, as the head was throttled for longer than it may be old
    ages: list[float]  # of the head behind every other page, in seconds, sorted

    @property
    def refused_percent(self) -> float:
        return 100 * self.refused / self.pages

    def age_at(self, share: float) -> float:
        return self.ages[min(len(self.ages) - 1, int(share * len(self.ages)))]


def crowd(containers: int, seed: int = 0) -> WarmContainers:
    """Let containers answer pages at random times, in virtual time."""
    random, row, now = Random(seed), HeadRow(), [0.0]
    throttled: dict[str, Any] = {"UnprocessedKeys": {row.table: {}}, "Responses": {}}

    def warm() -> KnownHead:
        table: Any = row
        virtual: Any = lambda: now[0]  # noqa: E731
        return KnownHead(table, now=virtual)

    known = [warm() for _ in range(containers)]
    read_at = [0.0] * containers
    due = [(random.uniform(0, 1), number) for number in range(containers)]
    heapq.heapify(due)
    pages = refused = 0
    ages: list[float] = []
    with patch.object(clock, "chance", random.random):
        for each in known:
            each.keep(Head(1, 1), 0.0)
        while due[0][0] < SECONDS:
            now[0], number = due[0]
            again = now[0] + random.expovariate(PAGES_A_SECOND)
            heapq.heapreplace(due, (again, number))
            head, is_refused = known[number], False
            if request := head.request():
                if row.takes(now[0]):
                    head.keep(Head(1, 1), request.since)
                    read_at[number] = now[0]
                else:
                    try:
                        head.receive(request, throttled)
                    except TryLater:
                        is_refused = True
            if now[0] < WARM_SECONDS:
                continue
            pages += 1
            refused += is_refused
            if not is_refused:
                ages.append(now[0] - read_at[number])
    return WarmContainers(containers, pages, refused, sorted(ages))
