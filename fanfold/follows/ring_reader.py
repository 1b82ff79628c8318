"""Reading a range of a publisher's ring over all its write shards: pure, without I/O.

At level L a publisher's edges lie in 2^L shards, each in ring order; there may be edges at every
level from 0 to the publisher's own. `RingRead` says which pages to read next, several at a time,
takes them in any order, and returns the edges of all levels merged, in ring order, each edge once.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import lt
from typing import NamedTuple

from fanfold import invariants
from fanfold.follows import ring

# Pages read at a time: one of each level for the merge, several of a level whose shards are small.
# The 511 shards of an empty ring at level 8 then take 32 rounds.
MAX_READS = 16
# A level with fewer buffered edges than this is read on.
LOW_WATER = 1_250


class EdgePage(NamedTuple):
    """Edges of one shard in ring order, and whether the range holds more of them."""

    edges: Sequence[str]
    more: bool


class Read(NamedTuple):
    """Read a page of one shard's edges below `hi`, behind `after`: a position or an edge."""

    level: int
    shard: int
    after: str
    hi: str


@dataclass
class _Shard:
    """The part of the range that lies in one shard."""

    number: int
    after: str  # read up to here: a position, or the last edge read
    hi: str  # where the shard or the range ends
    is_done: bool = False
    is_reading: bool = False
    edges: list[str] = field(default_factory=list)


@dataclass
class _Level:
    level: int
    begin: str  # shards from this position on have not been begun
    hi: str
    edges: list[str] = field(default_factory=list)  # read, not taken, and before all `shards`
    shards: deque[_Shard] = field(default_factory=deque)  # begun, in ring order
    done: int = 0  # shards read to their end
    read: int = 0  # edges read in all shards

    @property
    def reached(self) -> str:
        """An edge or a position; everything before it has been read."""
        return self.shards[0].after if self.shards else self.begin

    @property
    def is_done(self) -> bool:
        return not self.shards and self.begin >= self.hi

    def next_shard(self, low_water: int) -> _Shard | None:
        """The first shard of which a page may be read now; it may be a new one."""
        if len(self.edges) >= low_water:
            return None
        lack = low_water - len(self.edges) - sum(len(shard.edges) for shard in self.shards)
        for shard in self.shards:
            # Edges behind the first shard cannot be taken before it is read, however many they are.
            is_wanted = lack > 0 or shard is self.shards[0]
            if is_wanted and not (shard.is_done or shard.is_reading):
                return shard
        if self.begin < self.hi and self._unread() < self._shards_for(lack):
            return self._begin()
        return None

    def _unread(self) -> int:
        return sum(not shard.is_done for shard in self.shards)

    def _shards_for(self, edges: int) -> int:
        """How many shards hold this many edges, estimated from the shards read so far."""
        return math.ceil(edges * self.done / max(1, self.read)) if self.done else 1

    def _begin(self) -> _Shard:
        number = ring.shard_of(ring.position_of(self.begin), self.level)
        # Not beyond the shard's end: a misplaced item would mix with the edges of the next shard.
        hi = min(self.hi, ring.shard_start(number + 1, self.level))
        shard = _Shard(number, self.begin, hi)
        self.shards.append(shard)
        self.begin = hi
        return shard

    def page_read(self, number: int, page: EdgePage) -> None:
        shard = self._shard(number)
        shard.is_reading = False
        shard.edges += page.edges
        self.read += len(page.edges)
        if page.more:
            shard.after = page.edges[-1]
        else:
            shard.is_done = True
            self.done += 1
        while self.shards:
            first = self.shards[0]
            self.edges += first.edges
            first.edges = []
            if not first.is_done:
                return
            self.shards.popleft()

    def read_failed(self, number: int) -> None:
        self._shard(number).is_reading = False

    def _shard(self, number: int) -> _Shard:
        return next(shard for shard in self.shards if shard.number == number)


@dataclass
class RingRead:
    """Reads the edges from `lo` to below `hi`, at all levels up to `level`.

    `lo` is a position, or an edge, and then it begins behind that.

    A level with `low_water` edges buffered waits for the others.
    """

    level: int
    lo: str
    hi: str
    low_water: int = LOW_WATER
    _levels: list[_Level] = field(init=False)

    def __post_init__(self) -> None:
        self._levels = [_Level(level, self.lo, self.hi) for level in range(self.level + 1)]

    @property
    def is_done(self) -> bool:
        """Whether every level has been read to its end; some edges may not be taken yet."""
        return all(level.is_done for level in self._levels)

    @property
    def reached(self) -> str:
        """An edge or a position; all levels have been read to it, so everything before is taken."""
        return min(level.reached for level in self._levels)

    @property
    def is_reading(self) -> bool:
        """Whether a page is being read."""
        return self._reading() > 0

    def _reading(self) -> int:
        return sum(shard.is_reading for level in self._levels for shard in level.shards)

    def next_read(self) -> Read | None:
        """The page to read now that is needed first; None if no more can be used."""
        if self._reading() >= MAX_READS:
            return None
        wanted = [
            (level.level, shard)
            for level in self._levels
            if (shard := level.next_shard(self.low_water))
        ]
        if not wanted:
            return None
        level, shard = min(wanted, key=lambda each: each[1].after)
        shard.is_reading = True
        return Read(level, shard.number, shard.after, shard.hi)

    def page_read(self, read: Read, page: EdgePage) -> None:
        """Take a page that was read; raises `ValueError` if it cannot be the page asked for."""
        edges = page.edges
        if edges and (edges[0] <= read.after or not all(map(lt, edges, edges[1:]))):
            raise ValueError("Edges must come in ring order, each one once.")
        if page.more and not edges:
            raise ValueError("An empty page of edges cannot say where the next one begins.")
        if edges:
            is_placed = ring.edge(ring.follower_of(edges[0])) == edges[0]
            invariants.check("edge_position", is_placed, level=read.level, shard=read.shard)
            if not invariants.check("edges_in_range", edges[-1] < read.hi, level=read.level):
                page = page._replace(edges=[each for each in edges if each < read.hi], more=False)
        self._levels[read.level].page_read(read.shard, page)

    def read_failed(self, read: Read) -> None:
        """Let `next_read` ask for the page again."""
        self._levels[read.level].read_failed(read.shard)

    def take(self) -> list[str]:
        """The merged edges up to where all levels have been read; each edge is returned once."""
        if len(self._levels) == 1:
            taken, self._levels[0].edges = self._levels[0].edges, []
            return taken
        bound = self.reached
        found: list[str] = []
        for level in self._levels:
            # Edges at a position sort behind it, so a bound that is a position takes none of them.
            count = bisect_right(level.edges, bound)
            found += level.edges[:count]
            del level.edges[:count]
        return list(dict.fromkeys(sorted(found)))
