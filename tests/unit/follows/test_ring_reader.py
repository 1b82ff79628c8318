"""Reading the ring over all levels: any placements of edges, any order of pages."""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.fanout.segment_size import segment_range
from fanfold.follows import ring
from fanfold.follows.ring_reader import LOW_WATER, MAX_READS, EdgePage, Read, RingRead

MAX_LEVEL = 6


@dataclass
class Shards:
    """A publisher's edges at all levels, as the followers table keeps them."""

    shards: dict[tuple[int, int], list[str]] = field(default_factory=dict)

    @staticmethod
    def of(placements: Sequence[tuple[str, int]]) -> Shards:
        """Edges, each at a level."""
        found = Shards()
        for edge, level in set(placements):
            shard = ring.shard_of(ring.position_of(edge), level)
            found.shards.setdefault((level, shard), []).append(edge)
        for edges in found.shards.values():
            edges.sort()
        return found

    def page(self, read: Read, size: int, *, full_is_more: bool) -> EdgePage:
        """A page. DynamoDB says of a full one that there is more, even if it was the last."""
        edges = self.shards.get((read.level, read.shard), [])
        rest = edges[bisect_right(edges, read.after) : bisect_left(edges, read.hi)]
        more = len(rest) > size or (full_is_more and len(rest) == size)
        return EdgePage(rest[:size], more)


@dataclass
class Reading:
    """One reader; its pages arrive in any order, or fail."""

    shards: Shards
    wanted: RingRead
    chance: random.Random
    page_size: int = 3
    failing: float = 0.0
    reads: list[Read] = field(default_factory=list)
    taken: list[str] = field(default_factory=list)
    most_in_flight: int = 0

    def run(self) -> list[str]:
        """Read everything, and return it in the order in which it was given."""
        in_flight: list[Read] = []
        while True:
            while self.chance.random() < 0.8 and (read := self.wanted.next_read()):
                in_flight.append(read)
                self.reads.append(read)
            self.most_in_flight = max(self.most_in_flight, len(in_flight))
            assert self.wanted.is_reading is bool(in_flight)
            if in_flight:
                self._answer(in_flight.pop(self.chance.randrange(len(in_flight))))
            if self.chance.random() < 0.7:
                self.taken += self.wanted.take()
            if self.wanted.is_done and not in_flight:
                self.taken += self.wanted.take()
                assert self.wanted.next_read() is None
                assert self.wanted.take() == []
                return self.taken

    def _answer(self, read: Read) -> None:
        if self.chance.random() < self.failing:
            self.wanted.read_failed(read)
            return
        full_is_more = self.chance.random() < 0.5
        self.wanted.page_read(
            read, self.shards.page(read, self.page_size, full_is_more=full_is_more)
        )


def read_all(
    placements: Sequence[tuple[str, int]],
    *,
    level: int,
    lo: str = ring.START,
    hi: str = ring.END,
    low_water: int = LOW_WATER,
    page_size: int = 3,
    failing: float = 0.0,
    seed: int = 0,
) -> Reading:
    wanted = RingRead(level, lo, hi, low_water)
    reading = Reading(Shards.of(placements), wanted, random.Random(seed), page_size, failing)
    reading.run()
    return reading


def at(number: int) -> str:
    """A position."""
    return f"{number:016x}"


# Both ends of the ring, where the shards of every level begin, and just beside; and few others, so
# that edges share positions.
corners = st.sampled_from(
    [
        max(0, min(ring.RING_SIZE - 1, (shard << 64 - MAX_LEVEL) + beside))
        for shard in range(2**MAX_LEVEL + 1)
        for beside in (-1, 0, 1)
    ]
)
positions = st.one_of(corners, st.integers(0, ring.RING_SIZE - 1)).map(at)
edges = st.builds("{}#{}".format, positions, st.sampled_from("abc"))
levels = st.integers(0, MAX_LEVEL)
placements = st.lists(st.tuples(edges, levels), max_size=60)


@given(
    placements,
    levels,
    st.one_of(positions, edges),
    st.one_of(positions, st.just(ring.END)),
    st.sampled_from([1, 2, 3, 7, 100]),
    st.sampled_from([1, 2, 5, LOW_WATER]),
    st.sampled_from([0.0, 0.5]),
    st.integers(0, 2**32),
)
def test_every_edge_of_the_range_is_given_once_and_in_order(
    where: list[tuple[str, int]],
    level: int,
    lo: str,
    hi: str,
    page_size: int,
    low_water: int,
    failing: float,
    seed: int,
) -> None:
    where = [(edge, min(home, level)) for edge, home in where]
    reading = read_all(
        where,
        level=level,
        lo=lo,
        hi=hi,
        page_size=page_size,
        low_water=low_water,
        failing=failing,
        seed=seed,
    )
    assert reading.taken == sorted({edge for edge, _ in where if lo < edge < hi})
    assert reading.most_in_flight <= MAX_READS


def test_a_range_is_read_once_from_each_of_its_own_shards() -> None:
    reading = read_all([], level=4)
    assert len(reading.reads) == len(set(reading.reads)) == 2**5 - 1
    third = segment_range(2, 8)
    reading = read_all([], level=4, lo=third.lo, hi=third.hi)
    assert {(read.level, read.shard) for read in reading.reads} == {
        (0, 0), (1, 0), (2, 1), (3, 2), (4, 4), (4, 5),
    }  # fmt: skip


def rounds(shards: Shards, wanted: RingRead) -> list[list[Read]]:
    """Read everything, in rounds of all pages wanted at once; returns the reads of each round."""
    found = []
    while reads := list(iter(wanted.next_read, None)):
        for read in reads:
            wanted.page_read(read, shards.page(read, LOW_WATER, full_is_more=False))
        wanted.take()
        found.append(reads)
    assert wanted.is_done
    return found


@pytest.mark.parametrize("level", [4, 8, 10])
def test_a_ring_of_many_shards_and_few_edges_is_read_many_shards_at_a_time(level: int) -> None:
    where = [(ring.edge(f"user-{number}"), number % (level + 1)) for number in range(100)]
    shards = 2 ** (level + 1) - 1
    found = rounds(Shards.of(where), RingRead(level, ring.START, ring.END))
    assert sum(map(len, found)) == shards
    # The first round reads one shard of each level; a few rounds show that the levels are sparse.
    assert len(found) <= 5 + shards / MAX_READS


@given(st.integers(1, 10), positions, positions)
def test_a_shard_is_not_read_beyond_its_end(level: int, lo: str, hi: str) -> None:
    wanted = RingRead(level, lo, hi)
    while reads := list(iter(wanted.next_read, None)):
        for read in reads:
            end = ring.shard_start(read.shard + 1, read.level)
            assert read.after < read.hi == min(hi, end)
            wanted.page_read(read, EdgePage([], more=False))


def test_no_second_shard_is_read_while_one_fills_the_buffer() -> None:
    where = [(ring.edge(f"user-{number}"), 3) for number in range(8 * 2 * LOW_WATER)]
    found = rounds(Shards.of(where), RingRead(3, ring.START, ring.END))
    assert max(sum(read.level == 3 for read in reads) for reads in found) == 1


def test_pages_are_read_ahead_only_up_to_the_low_water_mark() -> None:
    wanted = RingRead(3, ring.START, ring.END, low_water=6)
    for read in list(iter(wanted.next_read, None)):
        wanted.page_read(read, EdgePage([], more=False))
    first, *ahead = [read for read in iter(wanted.next_read, None) if read.level == 3]
    assert len(ahead) == 5
    for read in ahead:
        edge = f"{ring.shard_start(read.shard, 3)}#a"
        wanted.page_read(read, EdgePage([edge, f"{edge}b"], more=True))
    # Ten edges are buffered; none can be taken before the first shard is read.
    assert [read for read in iter(wanted.next_read, None) if read.level == 3] == []
    assert wanted.take() == []
    wanted.read_failed(first)
    assert wanted.next_read() == first


@pytest.mark.parametrize(
    "page",
    [
        EdgePage([f"{at(2)}#b", f"{at(2)}#a"], more=False),
        EdgePage([f"{at(2)}#a", f"{at(2)}#a"], more=False),
        EdgePage([f"{at(0)}#a"], more=False),  # before the range
        EdgePage([], more=True),
    ],
)
def test_an_impossible_page_is_refused(page: EdgePage) -> None:
    wanted = RingRead(0, at(1), ring.END)
    read = wanted.next_read()
    assert read
    with pytest.raises(ValueError, match=r"Edges must come|cannot say"):
        wanted.page_read(read, page)
