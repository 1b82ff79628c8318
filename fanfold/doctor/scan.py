"""Rows, edges and marks in bulk, read consistently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fanfold import clock
from fanfold.aws import dynamodb
from fanfold.aws.items import MAX_KEYS, Item, get_text, text
from fanfold.doctor.findings import (
    Difference,
    Key,
    Pair,
    Placements,
    Snapshot,
    Unreachable,
    mark_of,
    pair_of,
)
from fanfold.errors import TryLater
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable, edge_key
from fanfold.follows.follows_table import FollowsTable, follow_of, row_key
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.relation import FOLLOWED, UNFOLLOWED, Follow
from fanfold.names import FOLLOWERS, FOLLOWING, READERS, Table
from fanfold.settings import HIGHEST_LEVEL
from fanfold.timeline.marks import Reader, weeks_of
from fanfold.timeline.readers import reader_of

# Publishers whose level is cached. The second read does not use the cache.
MAX_LEVELS = 100_000

Edge: TypeAlias = tuple[Pair, int, int]  # with its level and version


@dataclass(frozen=True)
class Records:
    follows: FollowsTable
    edges_table: EdgesTable
    publishers: PublishersTable
    threads: Executor
    _levels: dict[str, int] = field(default_factory=dict)
    _unreachable: dict[str, int] = field(default_factory=dict)  # levels above a publisher's row

    def rows(self, publisher_id: str | None) -> Iterator[tuple[int, list[Follow], list[Key]]]:
        """All rows, or those of one publisher, page by page.

        Each page: how many items were scanned, the rows, and the keys of unreadable items.
        """
        table = self.follows.table
        for answer in self._scan(table, "publisher_id = :value", publisher_id):
            rows = [(item, _row_of(item)) for item in answer["Items"]]
            unreadable = [_key_of(item, FOLLOWING) for item, row in rows if row is None]
            yield answer["ScannedCount"], [row for _, row in rows if row], unreadable

    def edges(
        self, publisher_id: str | None
    ) -> Iterator[tuple[int, dict[Pair, Placements], list[Key]]]:
        """All edges, or those of one publisher, like `rows`; copies may be on different pages."""
        table, prefix = self.edges_table.table, publisher_id and f"{publisher_id}#"
        for answer in self._scan(table, "begins_with(shard_id, :value)", prefix):
            items = answer["Items"]
            unreadable = [_key_of(item, FOLLOWERS) for item in items if _edge_of(item) is None]
            yield answer["ScannedCount"], _placements(items), unreadable

    def snapshot(self, pair: Pair) -> Snapshot | None:
        """The relation now; None if its row is unreadable, or changed during the read."""
        row = self._row(pair)
        if row is None:
            return None
        # Read after the row: no edge that was acknowledged before lies above this level.
        level = self._level_now(row.publisher_id)
        placements = self.placements({pair: level}).get(pair, {})
        mark = self.marks([row])[pair]
        now = self._row(pair)
        return Snapshot(row, placements, *mark) if now and now.version == row.version else None

    def placements(self, levels: Mapping[Pair, int]) -> dict[Pair, Placements]:
        """Where the edges of these pairs lie, each up to the level given for it."""
        keys = [
            edge_key(publisher_id, user_id, level)
            for (user_id, publisher_id), top in levels.items()
            for level in range(top + 1)
        ]
        return _placements(self.get_all(self.edges_table.table, keys))

    def marks(self, rows: Collection[Follow]) -> dict[Pair, tuple[Difference | None, bool]]:
        """How the marks of the readers differ from these rows, which were read before.

        And whether a mark says that the user has unfollowed.
        """
        readers, now_ms = self.follows.readers, clock.now_ms()
        head = self.follows.heads.get() if self.follows.heads else None
        users = sorted({row.user_id for row in rows})
        keys = [{READERS.partition_key: text(user_id)} for user_id in users]
        found = {
            get_text(item, READERS.partition_key): reader_of(item)
            for item in self.get_all(readers.table, keys)
        }
        told = {}
        for row in rows:
            reader = found.get(row.user_id, Reader())
            days = self.follows.retention_days
            mark = mark_of(row, reader, now_ms=now_ms, retention_days=days, head=head)
            told[pair_of(row)] = mark, bool(weeks_of(reader, row.publisher_id))
        return told

    def without_row(self, pairs: Collection[Pair]) -> list[Pair]:
        """The pairs that have no readable row."""
        keys = [row_key(*pair) for pair in pairs]
        rows = filter(None, map(_row_of, self.get_all(self.follows.table, keys)))
        known = set(map(pair_of, rows))
        return [pair for pair in pairs if pair not in known]

    def levels(self, pairs: Collection[Pair]) -> dict[Pair, int]:
        """The highest level at which the edge of each pair may lie, from a cache."""
        if len(self._levels) > MAX_LEVELS:
            self._levels.clear()
        new = sorted({publisher_id for _, publisher_id in pairs} - self._levels.keys())
        self._levels.update(zip(new, self.threads.map(self._level_now, new), strict=True))
        return {pair: self._levels[pair[1]] for pair in pairs}

    def above(self, edges: Mapping[Pair, Placements]) -> list[Unreachable]:
        """The publishers of which one of these edges lies above the level of their row.

        From now on, reads of their edges go up to the level of that edge.
        """
        high = [pair for pair, placements in edges.items() if max(placements) > 0]
        found: dict[str, Unreachable] = {}
        for pair in self.levels(high):
            publisher_id, seen = pair[1], max(edges[pair])
            if seen > self._levels[publisher_id]:
                # Read after the edge: a row is raised before anything is written at its new level.
                own = self.publishers.shards(publisher_id).level
                self._levels[publisher_id] = max(own, seen)
                if seen > own:
                    self._unreachable[publisher_id] = seen
                    found[publisher_id] = Unreachable(publisher_id, own, seen)
        return list(found.values())

    def count(self, table: str) -> int | None:
        """About how many items the table holds: DynamoDB counts them every six hours."""
        return self.follows.client.describe_table(TableName=table)["Table"].get("ItemCount")

    def _row(self, pair: Pair) -> Follow | None:
        """The row, of version 0 if there is none; None if it is unreadable."""
        items = self._get(self.follows.table, [row_key(*pair)])
        return _row_of(items[0]) if items else Follow(user_id=pair[0], publisher_id=pair[1])

    def _level_now(self, publisher_id: str) -> int:
        own = self.publishers.shards(publisher_id).level
        return max(own, self._unreachable.get(publisher_id, 0))

    def _scan(self, table: str, expression: str, value: str | None) -> Iterator[Any]:
        request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
        if value:
            request["FilterExpression"] = expression
            request["ExpressionAttributeValues"] = {":value": text(value)}
        return dynamodb.pages(self.follows.client, **request)

    def get_all(self, table: str, keys: Sequence[Any]) -> list[Item]:
        """The items of these keys that exist. Raises `TryLater`."""
        parts = [keys[start : start + MAX_KEYS] for start in range(0, len(keys), MAX_KEYS)]
        if len(parts) == 1:
            # A snapshot's only part: it is read on a thread, which must not wait for another one.
            return self._get(table, parts[0])
        read = self.threads.map(lambda part: self._get(table, part), parts)
        return [item for items in read for item in items]

    def _get(self, table: str, keys: Sequence[Any]) -> list[Item]:
        wanted = {table: {"Keys": keys, "ConsistentRead": True}}
        try:
            return dynamodb.rows(self.follows.client, wanted)[table]
        except TryLater:
            raise TryLater("DynamoDB is throttling these reads; run it again.") from None


def _placements(items: Iterable[Item]) -> dict[Pair, Placements]:
    """The readable edges among these items, by relation and level."""
    found: dict[Pair, Placements] = {}
    for pair, level, version in filter(None, map(_edge_of, items)):
        found.setdefault(pair, {})[level] = version
    return found


def _edge_of(item: Item) -> Edge | None:
    """The edge; None for an item that the service cannot have written."""
    key = _key_of(item, FOLLOWERS)
    publisher_id, _, shard = key[0].rpartition("#")
    user_id = ring.follower_of(key[1])
    try:
        level, version = int(shard.partition(".")[0]), int(item["version"]["N"])
    except (KeyError, ValueError):
        return None
    if not (publisher_id and user_id and 0 <= level <= HIGHEST_LEVEL):
        return None
    is_in_place = key == _key_of(edge_key(publisher_id, user_id, level), FOLLOWERS)
    return ((user_id, publisher_id), level, version) if is_in_place else None


def _row_of(item: Item) -> Follow | None:
    """The row; None for an item that the service cannot have written."""
    try:
        row = follow_of(item)
    except (KeyError, ValueError):
        return None
    return row if row.version > 0 and row.state in (FOLLOWED, UNFOLLOWED) else None


def _key_of(item: Item, table: Table) -> Key:
    assert table.sort_key
    return get_text(item, table.partition_key), get_text(item, table.sort_key)
