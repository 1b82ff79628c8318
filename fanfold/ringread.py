"""Reading a range of a publisher's ring over all its write shards: pure, without I/O.

At level L a publisher's edges lie in 2^L shards, each in ring order; edges of all levels from 0 to
the publisher's own may be there. `RingRead` says which pages to read next, many at a time, is fed
with them in any order, and gives the edges of all levels merged, in ring order, each one once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import lt

from fanfold import ring

# Pages read at a time. A page of each level keeps the merge going; more would only wait in line.
MAX_READS = 8
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
class _Level:
    level: int
    after: str  # read up to here: a position, or the last edge read
    is_done: bool = False
    is_reading: bool = False
    edges: list[str] = field(default_factory=list)


@dataclass
class RingRead:
    """Reads the edges from position `lo` to below `hi`, at all levels up to `level`."""

    level: int
    lo: str
    hi: str
    low_water: int = LOW_WATER
    _levels: list[_Level] = field(init=False)

    def __post_init__(self) -> None:
        self._levels = [
            _Level(level, self.lo, is_done=self.lo >= self.hi) for level in range(self.level + 1)
        ]

    @property
    def is_done(self) -> bool:
        """Whether every level is read to its end; edges may still wait to be taken."""
        return all(level.is_done for level in self._levels)

    @property
    def is_reading(self) -> bool:
        """Whether a page is on its way."""
        return any(level.is_reading for level in self._levels)

    def next_read(self) -> Read | None:
        """A page to read now, of the level that is the furthest behind; None if none is needed."""
        reading = sum(level.is_reading for level in self._levels)
        wanting = [
            level
            for level in self._levels
            if not (level.is_done or level.is_reading or len(level.edges) >= self.low_water)
        ]
        if reading >= MAX_READS or not wanting:
            return None
        behind = min(wanting, key=lambda level: level.after)
        behind.is_reading = True
        shard = ring.shard_of(ring.position_of(behind.after), behind.level)
        return Read(behind.level, shard, behind.after, self.hi)

    def page_read(self, read: Read, page: Page) -> None:
        """The page that was asked for; raises `ValueError` if it cannot be one."""
        level, edges = self._levels[read.level], page.edges
        level.is_reading = False
        if edges and (edges[0] <= read.after or not all(map(lt, edges, edges[1:]))):
            raise ValueError("Edges must come in ring order, each one once.")
        level.edges += edges
        if page.more:
            if not edges:
                raise ValueError("An empty page of edges cannot say where the next one begins.")
            level.after = edges[-1]
            return
        following = ring.shard_start(read.shard + 1, read.level)
        level.is_done = following >= self.hi
        level.after = self.hi if level.is_done else following

    def read_failed(self, read: Read) -> None:
        """The page could not be read; it will be asked for again."""
        self._levels[read.level].is_reading = False

    def take(self) -> list[str]:
        """The edges that all levels have been read beyond, merged; each is given once."""
        if len(self._levels) == 1:
            taken, self._levels[0].edges = self._levels[0].edges, []
            return taken
        bound = min(level.after for level in self._levels)
        found: list[str] = []
        for level in self._levels:
            # An edge goes on behind its position, so at a position nothing is taken yet.
            count = bisect_right(level.edges, bound)
            found += level.edges[:count]
            del level.edges[:count]
        return list(dict.fromkeys(sorted(found)))
