"""Reading a range of a publisher's ring over all its write shards: pure, without I/O.

At level L a publisher's edges lie in 2^L shards, each in ring order; edges of all levels from 0 to
the publisher's own may be there. `RingRead` says which pages to read next, many at a time, is fed
with them in any order, and gives the edges of all levels merged, in ring order, each one once.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import lt

from fanfold.follows import ring

# Pages read at a time: one of each level keeps the merge going, and where shards are small, several
# of a level. The 511 shards of an empty ring at level 8 are 32 rounds so.
MAX_READS = 16
# A level whose edges at hand are fewer is read on.
LOW_WATER = 1_250


@dataclass(frozen=True, slots=True)
class Page:
    """Edges of one shard in ring order, and whether more of them follow in the range."""

    edges: Sequence[str]
    more: bool


@dataclass(frozen=True, slots=True)
class Read:
    """Read a page of one shard's edges below `hi`, behind `after`: a position or an edge."""

    level: int
    shard: int
    after: str
    hi: str


@dataclass
class _Shard:
    """What of the range lies in one shard."""

    number: int
    after: str  # read up to here: a position, or the last edge read
    hi: str  # where it ends, or the range
    is_done: bool = False
    is_reading: bool = False
    edges: list[str] = field(default_factory=list)


@dataclass
class _Level:
    level: int
    begin: str  # of the shards from this position on, nothing is read yet
    hi: str
    edges: list[str] = field(default_factory=list)  # read and not taken, before all `shards`
    shards: deque[_Shard] = field(default_factory=deque)  # begun, in ring order
    done: int = 0  # how many shards are read to their end
    read: int = 0  # how many edges were in them

    @property
    def reached(self) -> str:
        """Everything before this, an edge or a position, is read."""
        return self.shards[0].after if self.shards else self.begin

    @property
    def is_done(self) -> bool:
        return not self.shards and self.begin >= self.hi

    def next_shard(self, low_water: int) -> _Shard | None:
        """The first shard of which a page may be read now, begun if need be."""
        if len(self.edges) >= low_water:
            return None
        lack = low_water - len(self.edges) - sum(len(shard.edges) for shard in self.shards)
        for shard in self.shards:
            # What the first one holds up is of no use before it is read, however much that is.
            is_wanted = lack > 0 or shard is self.shards[0]
            if is_wanted and not (shard.is_done or shard.is_reading):
                return shard
        if self.begin < self.hi and self._unread() < self._shards_for(lack):
            return self._begin()
        return None

    def _unread(self) -> int:
        return sum(not shard.is_done for shard in self.shards)

    def _shards_for(self, edges: int) -> int:
        """How many shards hold so many edges, to judge by those that are read."""
        return math.ceil(edges * self.done / max(1, self.read)) if self.done else 1

    def _begin(self) -> _Shard:
        number = ring.shard_of(self.begin, self.level)
        # No further than it goes: an item out of place would come between the edges of the next.
        hi = min(self.hi, ring.shard_start(number + 1, self.level))
        shard = _Shard(number, self.begin, hi)
        self.shards.append(shard)
        self.begin = hi
        return shard

    def page_read(self, number: int, page: Page) -> None:
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
    """Reads the edges from position `lo` to below `hi`, at all levels up to `level`.

    A level with `low_water` edges at hand waits for the others.
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
        """Whether every level is read to its end; edges may still wait to be taken."""
        return all(level.is_done for level in self._levels)

    @property
    def is_reading(self) -> bool:
        """Whether a page is on its way."""
        return self._reading() > 0

    def _reading(self) -> int:
        return sum(shard.is_reading for level in self._levels for shard in level.shards)

    def next_read(self) -> Read | None:
        """A page to read now, where it is needed first; None if none is needed."""
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

    def page_read(self, read: Read, page: Page) -> None:
        """The page that was asked for; raises `ValueError` if it cannot be one."""
        edges = page.edges
        if edges and (edges[0] <= read.after or not all(map(lt, edges, edges[1:]))):
            raise ValueError("Edges must come in ring order, each one once.")
        if page.more and not edges:
            raise ValueError("An empty page of edges cannot say where the next one begins.")
        self._levels[read.level].page_read(read.shard, page)

    def read_failed(self, read: Read) -> None:
        """The page could not be read; it will be asked for again."""
        self._levels[read.level].read_failed(read.shard)

    def take(self) -> list[str]:
        """The edges that all levels have been read beyond, merged; each is given once."""
        if len(self._levels) == 1:
            taken, self._levels[0].edges = self._levels[0].edges, []
            return taken
        bound = min(level.reached for level in self._levels)
        found: list[str] = []
        for level in self._levels:
            # An edge goes on behind its position, so at a position nothing is taken yet.
            count = bisect_right(level.edges, bound)
            found += level.edges[:count]
            del level.edges[:count]
        return list(dict.fromkeys(sorted(found)))
