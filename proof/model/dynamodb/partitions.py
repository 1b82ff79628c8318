"""Sorted partitions of items, of which tables and indexes consist."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from proof.model.dynamodb.values import Item

# An item's place in its partition: its sort key, if any; in an index, followed by the table's key,
# which distinguishes equal index keys.
Place: TypeAlias = tuple[Any, ...]
# Up to this many new places are inserted one by one; more are sorted in at once.
FEW = 8
# The keys of a test or run repeat.
HASHES_KEPT = 16_384


class Row(NamedTuple):
    """A stored item and its size in bytes."""

    item: Item
    size: int


class Key(NamedTuple):
    """The partition key of an item, and its place in the partition."""

    partition: Any
    place: Place


class Entry(NamedTuple):
    """An item's row in an index."""

    key: Key
    row: Row


@dataclass(frozen=True)
class Range:
    """The sort keys between two bounds, or with a prefix."""

    low: Any = None
    high: Any = None
    low_included: bool = True
    high_included: bool = True
    prefix: Any = None
    is_point: bool = False  # by `=`

    def ends_at(self, sort_key: Any, *, forward: bool) -> bool:
        """Whether the sort key is the last possible one: the included bound of BETWEEN, <=, >=."""
        if self.is_point:
            return False
        if forward:
            return self.high is not None and self.high_included and bool(sort_key == self.high)
        return self.low is not None and self.low_included and bool(sort_key == self.low)

    def holds(self, sort_key: Any) -> bool:
        if self.prefix is not None:
            return bool(sort_key.startswith(self.prefix))
        if self.low is not None and not (
            sort_key >= self.low if self.low_included else sort_key > self.low
        ):
            return False
        return self.high is None or bool(
            sort_key <= self.high if self.high_included else sort_key < self.high
        )


EVERYTHING = Range()


@dataclass(slots=True)
class Partition:
    """All items of one partition key. New places stay unsorted until a read."""

    rows: dict[Place, Row] = field(default_factory=dict)
    past: list[tuple[float, Place, Row | None]] = field(default_factory=list)
    _sorted: list[Place] = field(default_factory=list)
    _new: list[Place] = field(default_factory=list)

    def put(self, place: Place, row: Row | None) -> None:
        """Store the row; None removes it."""
        if row is None:
            if self.rows.pop(place, None) is not None:
                places = self._in_order()
                del places[bisect_left(places, place)]
            return
        if place not in self.rows:
            if not self._new and (not self._sorted or self._sorted[-1] < place):
                self._sorted.append(place)
            else:
                self._new.append(place)
        self.rows[place] = row

    def walk(
        self, within: Range, *, after: Place | None, forward: bool
    ) -> Iterator[tuple[Place, Row]]:
        """Rows of the range in order, behind the place `after`, which may be empty."""
        places = self._in_order()
        first, end = 0, len(places)
        if within.prefix is not None:
            prefix = within.prefix
            first = bisect_left(places, prefix, key=_sort_key)
            end = bisect_left(places, True, first, key=lambda p: not p[0].startswith(prefix))
        if within.low is not None:
            find = bisect_left if within.low_included else bisect_right
            first = find(places, within.low, key=_sort_key)
        if within.high is not None:
            find = bisect_right if within.high_included else bisect_left
            end = find(places, within.high, key=_sort_key)
        if after is not None and forward:
            first = max(first, bisect_right(places, after))
        elif after is not None:
            end = min(end, bisect_left(places, after))
        for index in range(first, end) if forward else range(end - 1, first - 1, -1):
            yield places[index], self.rows[places[index]]

    def remember(self, at: float, place: Place, *, since: float) -> None:
        """Keep the row at a place before it changes at `at`; forget rows from before `since`."""
        while self.past and self.past[0][0] < since:
            self.past.pop(0)
        self.past.append((at, place, self.rows.get(place)))

    def as_of(self, moment: float) -> Partition:
        """The partition at an earlier moment, as far as it remembers."""
        if not self.past or self.past[-1][0] <= moment:
            return self
        undone = {place: row for at, place, row in reversed(self.past) if at > moment}
        rows = {**self.rows, **undone}
        earlier = Partition()
        earlier.rows = {place: row for place, row in rows.items() if row is not None}
        earlier._sorted = sorted(earlier.rows)
        return earlier

    def _in_order(self) -> list[Place]:
        if len(self._new) > FEW:
            self._sorted += self._new
            self._sorted.sort()
        else:
            for place in self._new:
                insort(self._sorted, place)
        self._new.clear()
        return self._sorted


def _sort_key(place: Place) -> Any:
    return place[0]


NO_ROWS = Partition()


@dataclass
class Space:
    """All partitions of a table or an index, by partition key."""

    partitions: dict[Any, Partition] = field(default_factory=dict)
    _order: list[tuple[int, Any]] | None = None

    def partition(self, key: Any) -> Partition:
        """The partition of this key, which may be empty; only `put` adds one."""
        return self.partitions.get(key, NO_ROWS)

    def put(self, key: Any, place: Place, row: Row | None) -> None:
        partition = self.partitions.get(key)
        if partition is None:
            if row is None:
                return
            partition = self.partitions[key] = Partition()
            self._order = None
        partition.put(place, row)
        if not partition.rows and not partition.past:
            del self.partitions[key]
            self._order = None

    def remember(self, key: Any, place: Place, at: float, *, since: float) -> None:
        if key not in self.partitions:
            self.partitions[key] = Partition()
            self._order = None
        self.partitions[key].remember(at, place, since=since)

    def walk(
        self, *, after: tuple[Any, Place] | None, segment: int, segments: int, moment: float | None
    ) -> Iterator[tuple[Any, Place, Row]]:
        """The rows of a segment in the order of a scan: partitions by hash, each in order."""
        if self._order is None:
            self._order = sorted((hash_of(key), key) for key in self.partitions)
        order = self._order
        first = bisect_left(order, (segment << 64) // segments, key=_hash)
        end = bisect_left(order, ((segment + 1) << 64) // segments, key=_hash)
        if after is not None:
            first = max(first, bisect_left(order, (hash_of(after[0]), after[0])))
        for _, key in order[first:end]:
            partition = self.partitions.get(key, NO_ROWS)
            if moment is not None:
                partition = partition.as_of(moment)
            beyond = after[1] if after is not None and key == after[0] else None
            for place, row in partition.walk(EVERYTHING, after=beyond, forward=True):
                yield key, place, row


def _hash(entry: tuple[int, Any]) -> int:
    return entry[0]


@lru_cache(HASHES_KEPT)
def hash_of(key: Any) -> int:
    """A hash of 64 bits for partition keys; DynamoDB's own is not public."""
    raw = key if isinstance(key, bytes) else str(key).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(raw, digest_size=8).digest())
