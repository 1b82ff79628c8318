"""Rows, edges and marks in bulk, read consistently."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from fanfold import clock
from fanfold.aws import dynamodb
from fanfold.aws.items import MAX_KEYS, Item, get_text, text
from fanfold.doctor.audience import (
    Beside,
    block_of,
    counted,
    counts_of,
    difference_of,
    inverse_of,
    pair_at,
)
from fanfold.doctor.findings import (
    Difference,
    Key,
    Miscount,
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
from fanfold.follows.follows_table import (
    FollowsTable,
    Place,
    follow_of,
    is_of_list,
    places_of,
    row_key,
)
from fanfold.follows.publisher.privacy import Privacies, privacy_key
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.relation import BLOCKS, PRIVACY, REQUESTS, STATES, Follow
from fanfold.names import EXPIRES_AT, FOLLOWERS, FOLLOWING, READERS, Table
from fanfold.settings import HIGHEST_LEVEL
from fanfold.timeline.marks import Reader, weeks_of
from fanfold.timeline.readers import reader_of

# Publishers whose level is cached. The second read does not use the cache.
MAX_LEVELS = 100_000

Edge: TypeAlias = tuple[Pair, int, int]  # with its level and version
Places: TypeAlias = dict[Pair, set[Place]]  # in lists, by relation


class Page(NamedTuple):
    """A page of the table of follows."""

    scanned: int
    rows: list[Follow]
    expiring: set[Pair]  # those of the rows that DynamoDB will delete
    places: Places
    unreadable: list[Key]


@dataclass(frozen=True)
class Records:
    follows: FollowsTable
    edges_table: EdgesTable
    publishers: PublishersTable
    privacies: Privacies
    threads: Executor
    _levels: dict[str, int] = field(default_factory=dict)
    _unreachable: dict[str, int] = field(default_factory=dict)  # levels above a publisher's row

    def rows(self, publisher_id: str | None) -> Iterator[Page]:
        """All rows and lists, or those of one publisher, page by page."""
        own = (
            "publisher_id = :value OR user_id = :requests OR user_id = :blocks "
            "OR (user_id = :value AND attribute_exists(shuts))"
        )
        lists = {":requests": f"{publisher_id}{REQUESTS}", ":blocks": f"{publisher_id}{BLOCKS}"}
        for answer in self._scan(self.follows.table, own, publisher_id, **lists):
            page = Page(answer["ScannedCount"], [], set(), {}, [])
            for item in answer["Items"]:
                key = _key_of(item, FOLLOWING)
                if is_of_list(item) and (pair := pair_at(key)):
                    page.places.setdefault(pair, set()).add(key)
                elif not is_of_list(item) and (row := _row_of(item)):
                    page.rows.append(row)
                    page.expiring.update({pair_of(row)} if EXPIRES_AT in item else ())
                else:
                    page.unreadable.append(key)
            yield page

    def edges(
        self, publisher_id: str | None
    ) -> Iterator[tuple[int, dict[Pair, Placements], list[Key]]]:
        """All edges, or those of one publisher, like `rows`; copies may be on different pages."""
        table, prefix = self.edges_table.table, publisher_id and f"{publisher_id}#"
        for answer in self._scan(table, "begins_with(shard_id, :value)", prefix):
            items = answer["Items"]
            unreadable = [_key_of(item, FOLLOWERS) for item in items if _edge_of(item) is None]
            yield answer["ScannedCount"], _placements(items), unreadable

    def snapshot(self, pair: Pair, places: Set[Place] = frozenset()) -> Snapshot | None:
        """The relation now; None if its row is unreadable, or changed during the read.

        It may also be at these `places`, which a list has.
        """
        row, expires = self._row(pair)
        if row is None:
            return None
        # Read after the row: no edge that was acknowledged before lies above this level.
        level = self._level_now(row.publisher_id)
        placements = self.placements({pair: level}).get(pair, {})
        mark = self.marks([row], self.readers([row]))[pair]
        beside = self.beside([row], {pair} if expires else (), {pair: places})[pair]
        now, _ = self._row(pair)
        if now is None or now.version != row.version:
            return None
        own = beside.places - {block_of(inverse_of(pair))}
        return Snapshot(row, placements, *mark, difference_of(row, beside), own)

    def placements(self, levels: Mapping[Pair, int]) -> dict[Pair, Placements]:
        """Where the edges of these pairs lie, each up to the level given for it."""
        keys = [
            edge_key(publisher_id, user_id, level)
            for (user_id, publisher_id), top in levels.items()
            for level in range(top + 1)
        ]
        return _placements(self.get_all(self.edges_table.table, keys))

    def readers(self, rows: Iterable[Follow]) -> dict[str, Reader]:
        """The users of these rows as readers."""
        users = sorted({row.user_id for row in rows})
        keys = [{READERS.partition_key: text(user_id)} for user_id in users]
        found = {
            get_text(item, READERS.partition_key): reader_of(item)
            for item in self.get_all(self.follows.readers.table, keys)
        }
        return {user_id: found.get(user_id, Reader()) for user_id in users}

    def marks(
        self, rows: Collection[Follow], readers: Mapping[str, Reader]
    ) -> dict[Pair, tuple[Difference | None, bool]]:
        """How the marks of the readers differ from these rows, which were read before.

        And whether a mark says that the user has unfollowed.
        """
        now_ms, days = clock.now_ms(), self.follows.retention_days
        head = self.follows.heads.get() if self.follows.heads else None
        told = {}
        for row in rows:
            reader = readers[row.user_id]
            mark = mark_of(row, reader, now_ms=now_ms, retention_days=days, head=head)
            told[pair_of(row)] = mark, bool(weeks_of(reader, row.publisher_id))
        return told

    def beside(
        self,
        rows: Collection[Follow],
        expiring: Collection[Pair],
        places: Mapping[Pair, Set[Place]],
    ) -> dict[Pair, Beside]:
        """What lies beside these rows, which were read before, and at `places`."""
        looked = dict[Pair, set[Place]]()
        inverse = set[Pair]()
        for row in rows:
            pair = pair_of(row)
            looked[pair] = {*places_of(row), *places.get(pair, ())}
            if row.shut:
                looked[pair].add(block_of(inverse_of(pair)))
            if row.shut or row.shuts or block_of(pair) in looked[pair]:
                inverse.add(inverse_of(pair))
        keys = [row_key(*key) for key in sorted(inverse.union(*looked.values()))]
        found = {_key_of(item, FOLLOWING): item for item in self.get_all(self.follows.table, keys)}
        decided = {row.publisher_id for row in rows if row.privacy or row.is_listed}
        chosen = {
            get_text(item, "publisher_id"): item
            for item in self.get_all(
                self.privacies.table, [privacy_key(each) for each in sorted(decided)]
            )
        }
        return {
            pair: Beside(
                frozenset(looked[pair] & found.keys()),
                _row_of(found.get(inverse_of(pair), {})),
                self.privacies.of(chosen.get(f"{pair[1]}{PRIVACY}", {})),
                pair in expiring,
            )
            for pair in looked
        }

    def misplaced(self, places: Places) -> Places:
        """Those of the places in lists at which their relation is not to be."""
        rows = self.get_all(self.follows.table, [row_key(*pair) for pair in places])
        right = {pair_of(row): places_of(row) for row in map(_row_of, rows) if row}
        return {pair: each for pair, each in places.items() if each - right.get(pair, frozenset())}

    def miscount(self, user_id: str) -> Miscount | None:
        """How a reader's counts differ from the rows; None if they agree, or change just now."""
        before = list(self.follows.rows_of(user_id))
        told = counted(self.follows.readers.get(user_id))
        # What is the same in both reads was so in between, when the counts were read.
        if list(self.follows.rows_of(user_id)) != before or counts_of(before) == told:
            return None
        return Miscount(user_id, told, counts_of(before))

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

    def _row(self, pair: Pair) -> tuple[Follow | None, bool]:
        """The row, of version 0 if there is none; None if it is unreadable. Whether it expires."""
        items = self._get(self.follows.table, [row_key(*pair)])
        if not items:
            return Follow(user_id=pair[0], publisher_id=pair[1]), False
        return _row_of(items[0]), EXPIRES_AT in items[0]

    def _level_now(self, publisher_id: str) -> int:
        own = self.publishers.shards(publisher_id).level
        return max(own, self._unreachable.get(publisher_id, 0))

    def _scan(self, table: str, expression: str, value: str | None, **more: str) -> Iterator[Any]:
        request: dict[str, Any] = {"TableName": table, "ConsistentRead": True}
        if value:
            request["FilterExpression"] = expression
            values = {":value": value, **more}
            request["ExpressionAttributeValues"] = {name: text(values[name]) for name in values}
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
    return row if row.version > 0 and row.state in STATES else None


def _key_of(item: Item, table: Table) -> Key:
    assert table.sort_key
    return get_text(item, table.partition_key), get_text(item, table.sort_key)
