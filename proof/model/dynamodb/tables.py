"""A table and its indexes: checks keys, derives entries, applies changes, expires items."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from proof.model.clock import Clock
from proof.model.dynamodb.capacity import WRITE, Charge, Resource, index_writes, write_units
from proof.model.dynamodb.partitions import Entry, Key, Partition, Row, Space
from proof.model.dynamodb.values import Item, Value, size_of_item
from proof.model.errors import Invalid

MAX_PARTITION_KEY_BYTES = 2048
MAX_SORT_KEY_BYTES = 1024
MAX_ITEM_BYTES = 400 * 1024
KEYS_ONLY, ALL, INCLUDE = "KEYS_ONLY", "ALL", "INCLUDE"
# DynamoDB deletes an item "within a few days" of its time.
TTL_DELAY_SECONDS = 2 * 24 * 60 * 60
# DynamoDB ignores older times.
TTL_MAX_AGE_SECONDS = 5 * 365 * 24 * 60 * 60


@dataclass(frozen=True)
class KeySchema:
    """The key of a table or index: names, and the type of each."""

    partition: str
    sort: str | None = None
    types: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The partition key first."""
        return (self.partition,) if self.sort is None else (self.partition, self.sort)

    def type_of(self, name: str) -> str:
        return self.types.get(name, "S")


@dataclass(frozen=True)
class IndexSchema:
    name: str
    key: KeySchema
    projection: str = KEYS_ONLY
    included: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TableSchema:
    """A table; `ttl` is the attribute with the time at which an item expires."""

    name: str
    key: KeySchema
    indexes: tuple[IndexSchema, ...] = ()
    ttl: str | None = None


@dataclass
class Hooks:
    """What a simulation decides. Lags and delays are in seconds, and drawn at each call.

    `read_lag(table)`: how old an eventually consistent read's data are, at most `max_read_lag`.
    `index_lag(table, index)`: how late a change reaches an index; changes keep their order.
    `ttl_delay(table)`: how long after its time an item is deleted; None never deletes.
    `unprocessed(operation, table, count)`: numbers of the `count` requests of a batch left over.
    `shuffle(items)`: reorders the answer of BatchGetItem in place.
    `appear(steps)`: makes the changes of a transaction, in any order, and some of them later. Its
    items are locked until all are made; only then may the call be answered.
    """

    read_lag: Callable[[str], float] | None = None
    max_read_lag: float = 10.0
    index_lag: Callable[[str, str], float] | None = None
    ttl_delay: Callable[[str], float] | None = lambda _table: TTL_DELAY_SECONDS
    unprocessed: Callable[[str, str, int], Collection[int]] | None = None
    shuffle: Callable[[list[Any]], None] | None = None
    appear: Callable[[list[Callable[[], None]]], None] | None = None


@dataclass
class Index:
    """An index's entries, and the changes that have not reached it yet."""

    schema: IndexSchema
    table_key: KeySchema
    space: Space = field(default_factory=Space)
    _coming: deque[tuple[float, Key, Row | None]] = field(default_factory=deque)

    @cached_property
    def _projected(self) -> frozenset[str]:
        return frozenset((*self.schema.key.names, *self.table_key.names, *self.schema.included))

    def entry(self, item: Item | None) -> Entry | None:
        """The item's entry; None if it lacks a key of the index, which is sparse."""
        if item is None or any(name not in item for name in self.schema.key.names):
            return None
        key = self.key_of(item)
        if self.schema.projection == ALL:
            kept = item
        else:
            kept = {name: value for name, value in item.items() if name in self._projected}
        return Entry(key, Row(kept, size_of_item(kept)))

    def key_of(self, item: Item) -> Key:
        """The place in the index of an item with the keys of index and table."""
        names = [self.schema.key.sort] if self.schema.key.sort else []
        place = tuple(item[name][1] for name in (*names, *self.table_key.names))
        return Key(item[self.schema.key.partition][1], place)

    def change(self, key: Key, row: Row | None, *, due: float, now: float) -> None:
        """Let a change reach the index when it is due, after earlier changes."""
        if self._coming:
            due = max(due, self._coming[-1][0])
        if due <= now and not self._coming:
            self.space.put(key.partition, key.place, row)
        else:
            self._coming.append((due, key, row))

    def catch_up(self, now: float) -> Space:
        while self._coming and self._coming[0][0] <= now:
            _, key, row = self._coming.popleft()
            self.space.put(key.partition, key.place, row)
        return self.space


class Table:
    """A table's items, its indexes, and the times at which its items expire."""

    def __init__(self, schema: TableSchema, clock: Clock, hooks: Hooks) -> None:
        self.schema = schema
        self.space = Space()
        self.indexes = {each.name: Index(each, schema.key) for each in schema.indexes}
        self.ttl = schema.ttl
        self.resource = Resource(schema.name)
        self._clock = clock
        self._hooks = hooks
        self._expiring: list[tuple[float, int, Key, Value]] = []
        self._count = 0

    def key_of(self, item: Item) -> Key:
        """The place of an item with checked keys."""
        schema = self.schema.key
        place = () if schema.sort is None else (item[schema.sort][1],)
        return Key(item[schema.partition][1], place)

    def checked_key(self, key: Item) -> Key:
        """The place of a key's item; raises `Invalid` if the attributes are not the key's."""
        schema = self.schema.key
        if len(key) != len(schema.names):
            raise Invalid("The provided key element does not match the schema")
        for name in schema.names:
            if name not in key or key[name][0] != schema.type_of(name):
                raise Invalid("The provided key element does not match the schema")
        check_key(schema, key)
        return self.key_of(key)

    def check_item(self, item: Item) -> int:
        """The size of an item; raises `Invalid` if it cannot be stored here."""
        for name in self.schema.key.names:
            if name not in item:
                raise Invalid.value(f"Missing the key {name} in the item")
            if item[name][0] != self.schema.key.type_of(name):
                expected, actual = self.schema.key.type_of(name), item[name][0]
                raise Invalid.value(
                    f"Type mismatch for key {name} expected: {expected} actual: {actual}"
                )
        check_key(self.schema.key, item)
        self.check_index_keys(item)
        size = size_of_item(item)
        if size > MAX_ITEM_BYTES:
            raise Invalid("Item size has exceeded the maximum allowed size")
        return size

    def check_index_keys(self, item: Item) -> None:
        """Refuse an index key of the wrong type, empty or too long."""
        for index in self.schema.indexes:
            for name in index.key.names:
                if name in item and item[name][0] != index.key.type_of(name):
                    raise Invalid.value(
                        f"Type mismatch for Index Key {name} Expected: {index.key.type_of(name)} "
                        f"Actual: {item[name][0]} IndexName: {index.name}"
                    )
            check_key(index.key, item, index=index.name)

    def get(self, key: Key) -> Row | None:
        return self.space.partition(key.partition).rows.get(key.place)

    def moment(self, *, consistent: bool) -> float | None:
        """The moment of which a read sees the state; None for now."""
        if consistent or self._hooks.read_lag is None:
            return None
        lag = min(self._hooks.read_lag(self.schema.name), self._hooks.max_read_lag)
        return self._clock.now - lag if lag > 0 else None

    def partition(self, key: Any, moment: float | None) -> Partition:
        found = self.space.partition(key)
        return found if moment is None else found.as_of(moment)

    def charges(self, key: Key, old: Row | None, new: Row | None) -> list[Charge]:
        """What a change of an item consumes in the table and its indexes."""
        units = write_units(old.size if old else 0, new.size if new else 0)
        charges = [Charge(self.resource, WRITE, key.partition, units)]
        for index, before, after in self._entries(old, new):
            resource = Resource(self.schema.name, index.schema.name)
            for row, cost in index_writes(before, after):
                partition = row.item[index.schema.key.partition][1]
                charges.append(Charge(resource, WRITE, partition, cost))
        return charges

    def change(self, key: Key, new: Row | None, *, at: float | None = None) -> None:
        """Store the new image, or remove the item; the indexes follow. `at` may be a past time."""
        now = self._clock.now
        at = now if at is None else at
        if self._hooks.read_lag is not None:
            since = now - self._hooks.max_read_lag
            self.space.remember(key.partition, key.place, at, since=since)
        old = self.get(key) if self.indexes or self.ttl else None
        self.space.put(key.partition, key.place, new)
        for index, before, after in self._entries(old, new):
            lag = self._hooks.index_lag
            due = at + (lag(self.schema.name, index.schema.name) if lag else 0.0)
            if before is not None and (after is None or before.key != after.key):
                index.change(before.key, None, due=due, now=now)
            if after is not None:
                index.change(after.key, after.row, due=due, now=now)
        if self.ttl is not None and new is not None:
            self._schedule(key, old, new)

    def _entries(
        self, old: Row | None, new: Row | None
    ) -> Iterator[tuple[Index, Entry | None, Entry | None]]:
        """The indexes that a change reaches, each with its entry before and after."""
        for index in self.indexes.values():
            before = index.entry(old.item if old else None)
            after = index.entry(new.item if new else None)
            if before != after:
                yield index, before, after

    def expire(self) -> None:
        """Delete due items, each at its time, without consuming units."""
        now = self._clock.now
        while self._expiring and self._expiring[0][0] <= now:
            due, _, key, expiry = heapq.heappop(self._expiring)
            row = self.get(key)
            if self.ttl and row is not None and row.item.get(self.ttl) == expiry:
                self.change(key, None, at=due)

    def _schedule(self, key: Key, old: Row | None, new: Row) -> None:
        """Note when an item is due. Its time has to be a number, in seconds since the epoch."""
        assert self.ttl is not None
        expiry = new.item.get(self.ttl)
        if expiry is None or expiry[0] != "N" or self._hooks.ttl_delay is None:
            return
        if old is not None and old.item.get(self.ttl) == expiry:
            return
        if expiry[1] < self._clock.now - TTL_MAX_AGE_SECONDS:
            return
        due = float(expiry[1]) + self._hooks.ttl_delay(self.schema.name)
        self._count += 1
        heapq.heappush(self._expiring, (due, self._count, key, expiry))


def check_key(schema: KeySchema, item: Item, *, index: str | None = None) -> None:
    """Refuse empty and oversize values of key attributes; the item may lack some."""
    for name in schema.names:
        kind, content = item.get(name, ("N", None))
        if kind not in ("S", "B"):
            continue
        if not content:
            what = "an index" if index else "a"
            raise Invalid(
                "One or more parameter values are not valid. The AttributeValue for "
                f"{what} key attribute cannot contain an empty string value. Key: {name}"
            )
        size = len(content.encode()) if kind == "S" else len(content)
        if name == schema.partition and size > MAX_PARTITION_KEY_BYTES:
            raise Invalid.value("Size of hashkey has exceeded the maximum size limit of2048 bytes")
        if name == schema.sort and size > MAX_SORT_KEY_BYTES:
            raise Invalid.value(
                "Aggregated size of all range keys has exceeded the size limit of 1024 bytes"
            )
