"""The estimate of a publisher's followers: any number of them, at any levels.

The edges of big lists are generated when they are read, and only their start is read.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from heapq import merge
from itertools import islice, takewhile
from random import Random
from statistics import mean
from typing import Any

from fanfold.follows import follower_estimate, ring
from fanfold.follows.edges_table import PAGE_EDGES, EdgesTable
from fanfold.follows.follower_estimate import Estimate
from fanfold.follows.ring_reader import MAX_READS, EdgePage, Read

# Edges that are generated together in a long list: of most shards, only few are read.
SLICE_EDGES = 100
# The share of users who follow again after a growth, and so have an edge at the new level too.
TWICE = 0.1

# The weight of each level among the edges, after various growths and static levels.
HISTORIES: Mapping[str, Mapping[int, float]] = {
    "never grown": {0: 1},
    "just grown, nothing written there yet": {0: 1, 1: 0},
    "doubled, each level as full as it could be": {level: 2**level for level in range(5)},
    "doubled to the highest": {level: 2**level for level in range(9)},
    "grown late": {0: 1000, 1: 10, 2: 10, 3: 1},
    "grown early": {0: 1, 1: 1, 2: 1, 3: 1000},
    "kept at one level from the beginning": {0: 0, 6: 1},
    "kept at one level later": {0: 3, 4: 1},
    "moved up and nearly empty since": {0: 1, 8: 0.001},
}
SEEDS = 5
SIZES = (1_000, 1_100, 2_000, 10_000, 220_000, 1_000_000, 10_000_000)


class Edges:
    """Edges that are uniform on the ring, and always the same for a seed."""

    def __init__(self, count: int, seed: str) -> None:
        self.count = count
        self._seed = seed
        self._slices = 1 if count < 20 * SLICE_EDGES else count // SLICE_EDGES
        self._slice = cache(self._make)

    def after(self, edge: str) -> Iterator[str]:
        """The edges behind an edge or at and behind a position, in ring order."""
        first = int(ring.position_of(edge), 16) * self._slices // ring.RING_SIZE
        for number in range(first, self._slices):
            edges = self._slice(number)
            yield from edges[bisect_right(edges, edge) :]

    def _make(self, number: int) -> list[str]:
        chance = Random(f"{self._seed} {number} of {self.count}")
        mean = self.count / self._slices
        count = self.count if self._slices == 1 else round(chance.gauss(mean, mean**0.5))
        low, high = (ring.RING_SIZE * each // self._slices for each in (number, number + 1))
        places = (low + int(chance.random() * (high - low)) for _ in range(count))
        return sorted(f"{place:016x}#{self._seed}" for place in places)


class Ring:
    """A publisher whose followers' edges lie at the levels of a history."""

    def __init__(self, followers: int, history: Mapping[int, float], seed: int) -> None:
        self.level = max(history)
        self.calls = 0
        # For each kind of follower: the levels of its edges, and the edges.
        self._kinds: list[tuple[set[int], Edges]] = []
        left, weights = followers, sum(history.values())
        for level, weight in history.items():
            count = left if level == self.level else round(followers * weight / weights)
            twice = round(TWICE * count) if level < self.level and history[self.level] else 0
            self._kinds.append(({level}, Edges(count - twice, f"{seed}-{level}")))
            self._kinds.append(({level, self.level}, Edges(twice, f"{seed}-{level}-twice")))
            left -= count

    def page(self, read: Read, limit: int) -> EdgePage:
        """A page of one shard; a full one says that there is more, as DynamoDB does."""
        self.calls += 1
        end = min(read.hi, ring.shard_start(read.shard + 1, read.level))
        kinds = (edges.after(read.after) for levels, edges in self._kinds if read.level in levels)
        found = list(islice(takewhile(lambda edge: edge < end, merge(*kinds)), limit))
        return EdgePage(found, more=len(found) == limit)


@dataclass(frozen=True)
class MadeUp(EdgesTable):
    """The followers table with one publisher in it."""

    ring: Ring

    def page(self, publisher_id: str, read: Read, limit: int | None = None) -> EdgePage:
        """A page of one shard."""
        return self.ring.page(read, limit or PAGE_EDGES)


def estimated(here: Ring, *, max_reads: float = math.inf) -> Estimate:
    nothing: Any = None
    followers = MadeUp(nothing, "Followers", here)
    return follower_estimate.sample(followers, "ada", here.level, max_reads=max_reads).estimate


def errors(history: Mapping[int, float]) -> list[float]:
    """The relative errors of estimates for lists of every size."""
    return [
        estimated(Ring(size, history, seed)).followers / size - 1
        for size in SIZES
        for seed in range(SEEDS)
    ]


def test_19_of_20_estimates_are_within_a_tenth_and_over_all_histories_within_6_percent() -> None:
    found = {name: errors(history) for name, history in HISTORIES.items()}
    for name, some in found.items():
        assert sum(abs(error) <= 0.1 for error in some) >= 0.95 * len(some), name
    every = [error for some in found.values() for error in some]
    assert sum(abs(error) <= 0.06 for error in every) >= 0.95 * len(every)
    assert abs(mean(every)) < 0.01  # and right on average


def test_a_list_shorter_than_the_sample_is_counted_exactly() -> None:
    for name, history in HISTORIES.items():
        for followers in (0, 1, 2, 500, 1_200):
            found = estimated(Ring(followers, history, seed=followers))
            assert found == (followers, True), name


def test_few_followers_in_many_shards_are_estimated_from_as_many_pages_as_may_be_read() -> None:
    chance, followers = Random(1), 400
    found = []
    for seed in range(100):
        here = Ring(followers, {0: 0.5, 8: 0.5}, seed)
        pages = chance.randrange(60, 500)
        answer = estimated(here, max_reads=pages)
        assert pages <= here.calls < pages + MAX_READS
        assert not answer.exact
        found.append(answer.followers / followers - 1)
    assert abs(mean(found)) < 0.05  # right on average
    assert estimated(here, max_reads=511) == (followers, True)
