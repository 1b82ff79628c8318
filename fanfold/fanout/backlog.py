"""The backlog of a delivery: which edges are unread, unsent, in flight or to be retried. Pure.

It knows no rules of time or pace: batch_retries.py says when to retry, the policy when to stop.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from fanfold.aws.items import MAX_PUTS
from fanfold.fanout.batch_retries import Retries
from fanfold.follows import ring
from fanfold.follows.ring_reader import EdgePage, Read, RingRead

# Enough for any segment; fixed, so that text sorts as the numbers do.
_WRITTEN_DIGITS = 10

# Sorts after every edge at a position, because an edge continues with '#'.
_AFTER_EDGES = "~"


@dataclass(frozen=True)
class Resume:
    """Where the next worker of a segment begins, and how many entries are written before that.

    `stragglers` are earlier positions whose followers still lack the entry.
    """

    position: str
    written: int
    stragglers: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Fixed-width position, then the count: of two resumes, the one further on sorts later."""
        return ".".join((self.position, f"{self.written:0{_WRITTEN_DIGITS}}", *self.stragglers))

    @staticmethod
    def from_text(value: str) -> Resume:
        position, written, *stragglers = value.split(".")
        return Resume(position, int(written), tuple(stragglers))


@dataclass
class Backlog:
    """The edges from `start` to below `hi`, at all levels up to `level`, and the `stragglers`.

    Stragglers are positions before `start` whose followers still lack the entry. `known` are all
    edges of the range, in ring order, if they were read before.
    """

    level: int
    start: str
    hi: str
    retries: Retries
    stragglers: Sequence[str] = ()
    known: Sequence[str] | None = None

    unread: deque[RingRead] = field(default_factory=deque)  # ranges in ring order
    in_flight: dict[int, Sequence[str]] = field(default_factory=dict)  # edges by batch
    _edges: list[str] = field(default_factory=list)  # read and not dropped, in ring order
    _next: int = 0  # index of the first edge that was never sent
    _dropped: int = 0  # edges before those in `_edges`; all of them are written
    _batches: int = 0

    def __post_init__(self) -> None:
        lagging = sorted({each for each in self.stragglers if each < self.start})
        for position in lagging:
            self.unread.append(RingRead(self.level, position, position + _AFTER_EDGES))
        if self.known is not None:
            self._edges = list(self.known)
        elif self.start < self.hi:
            self.unread.append(RingRead(self.level, self.start, self.hi))

    @property
    def is_reading(self) -> bool:
        return bool(self.unread) and self.unread[0].is_reading

    @property
    def is_empty(self) -> bool:
        """Whether every edge is read and written."""
        unsent = self._next < len(self._edges)
        return not (self.unread or unsent or self.in_flight or self.retries)

    @property
    def edges_read(self) -> int:
        return self._dropped + len(self._edges)

    def next_read(self, max_in_flight: int) -> Read | None:
        """The next page, read ahead while the edges at hand are being written."""
        unsent = len(self._edges) - self._next
        if self.unread and unsent < MAX_PUTS * max_in_flight:
            return self.unread[0].next_read()
        return None

    def page_read(self, read: Read, page: EdgePage) -> None:
        current = self.unread[0]
        current.page_read(read, page)
        if edges := current.take():
            self._edges += edges
            self._drop_written()
        if current.is_done:
            self.unread.popleft()

    def _drop_written(self) -> None:
        """Drop the edges that are written, so that memory does not grow with the segment.

        Edges at the position of an unwritten one stay: they count together or not at all.
        """
        sent = chain.from_iterable(self.in_flight.values())
        first_unwritten = min(chain(sent, self.retries), default=self._edges[self._next])
        count = bisect_left(self._edges, ring.position_of(first_unwritten))
        del self._edges[:count]
        self._next -= count
        self._dropped += count

    def read_failed(self, read: Read) -> None:
        self.unread[0].read_failed(read)

    def batch_size(self, now: float) -> int:
        """How many entries a batch may hold at `now`; 0 if it has to wait for a page or a retry."""
        unsent = len(self._edges) - self._next
        is_due = self.retries.next_at <= now
        # The last edges of a page wait for the next page, so that batches are full.
        if unsent >= MAX_PUTS or is_due or (unsent and not self.unread):
            return min(MAX_PUTS, unsent + len(self.retries))
        return 0

    def begin_batch(self, now: float) -> tuple[int, Sequence[str]]:
        """Put the next edges in flight, retries first: the number of their batch, and the edges."""
        due = self.retries.take_due(now)
        fresh = self._edges[self._next : self._next + MAX_PUTS - len(due)]
        self._next += len(fresh)
        self._batches += 1
        self.in_flight[self._batches] = edges = due + fresh
        return self._batches, edges

    def rest(self, max_stragglers: int) -> tuple[str, int, tuple[str, ...]]:
        """What another worker has to do: position to begin at, entries written before, stragglers.

        Nothing may be in flight.
        """
        unwritten = [*self.retries, *self._edges[self._next :]]
        unread = [each.lo for each in self.unread if each.hi != self.hi]
        owed = {ring.position_of(edge) for edge in (*unwritten, *unread)}
        position = self._reached()
        lag = sorted(each for each in owed if each < position)
        # The stragglers of the worker before may all travel on, or the position would go back.
        most = max(max_stragglers, bisect_left(lag, self.start))
        if len(lag) > most:
            position, lag = lag[most], lag[:most]
        # A position stands for all edges on it: if one is unwritten, none of them counts yet.
        before = (ring.position_of(edge) for edge in self._edges)
        written = self._dropped + sum(each < position and each not in lag for each in before)
        return position, written, tuple(lag)

    def _reached(self) -> str:
        """The position before which every edge of the range was sent."""
        for edge in self._edges[self._next :]:
            if edge > self.start:
                return ring.position_of(edge)
        if self.unread and self.unread[-1].hi == self.hi:
            # The last edge that was read is written again: to begin after it could miss another
            # follower with the very same hash.
            return ring.position_of(max(self.start, self._edges[-1] if self._edges else ""))
        return max(self.start, ring.behind_all(self.hi))
