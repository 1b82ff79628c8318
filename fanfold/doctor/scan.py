"""Rows and edges in bulk, as the doctor compares them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from fanfold import clock
from fanfold.aws.items import Item, get_text, number, text
from fanfold.errors import TryLater
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable, edge_key, page_of
from fanfold.follows.follow import TOMBSTONE_SECONDS
from fanfold.follows.follows_table import (
    FOLLOWED,
    UNFOLLOWED,
    Follow,
    FollowsTable,
    follow_of,
    row_key,
)
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.ring_reader import Read, RingRead
from fanfold.names import EXPIRES_AT, FOLLOWERS, FOLLOWING, Table
from fanfold.settings import HIGHEST_LEVEL

# BatchGetItem takes no more keys, and leaves some when a table has enough to do.
MAX_KEYS = 100
ATTEMPTS = 6
BACKOFF_SECONDS = 0.05
# A sample is of whole segments of a scan, about so many, out of no more than DynamoDB cuts.
SEGMENTS_OF_A_SAMPLE = 32
# Of one publisher a sample reads no more pages, twice; to level 3 that is the whole ring.
READS_OF_A_SAMPLE = 16
MAX_SEGMENTS = 1_000_000
# Publishers whose level is remembered. One that has grown since is noticed at the second look.
MAX_LEVELS = 100_000

Pair: TypeAlias = tuple[str, str]  # user, publisher
Placements: TypeAlias = dict[
    int, int
]  # of one relation's edge: its version at each level where it is
Edge: TypeAlias = tuple[Pair, int, int]  # its level and version
Key: TypeAlias = tuple[str, str]  # of an item: partition key, sort key


@dataclass(frozen=True)
class Records:
    """Rows and edges in bulk, read consistently; `threads` read many at a time."""

    following: FollowsTable
    followers: EdgesTable
    publishers: PublishersTable
    threads: Executor
    _levels: dict[str, int] = field(default_factory=dict)
    # Levels of edges that the rows of their publishers do not know.
    _above: dict[str, int] = field(default_factory=dict)

    def follows(self, **scan: Any) -> Iterator[tuple[int, list[Follow], list[Key]]]:
        """All rows or what the scan keeps of them, page by page, and how many were read for it.

        And the keys of items that are none.
        """
        for answer in self._scan(self.following.table, **scan):
            read = [(item, _row_of(item)) for item in answer["Items"]]
            rows = [row for _, row in read if row]
            unreadable = [_key_of(item, FOLLOWING) for item, row in read if row is None]
            yield answer["ScannedCount"], rows, unreadable

    def some_follows(self, size: int) -> Iterator[tuple[int, list[Follow], list[Key]]]:
        """So many rows, out of segments of the table that are drawn by lot; else as `follows`."""
        a_part = max(1, size // SEGMENTS_OF_A_SAMPLE)
        segments = min(MAX_SEGMENTS, max(1, (self.count(self.following.table) or 0) // a_part))
        for segment in sorted(range(segments), key=lambda _segment: clock.chance()):
            for _, rows, unreadable in self.follows(Segment=segment, TotalSegments=segments):
                some = rows[:size]
                yield len(some), some, unreadable
                size -= len(some)
                if size <= 0:
                    return

    def edges(self) -> Iterator[tuple[dict[Pair, Placements], list[Key]]]:
        """All edges, page by page, and the keys of items that are none.

        One that is at two levels may come in two pages.
        """
        for answer in self._scan(self.followers.table):
            read = [(item, _edge_of(item)) for item in answer["Items"]]
            unreadable = [_key_of(item) for item, edge in read if edge is None]
            yield _placements(edge for _, edge in read), unreadable

    def ring(
        self,
        publisher_id: str,
        lo: str,
        hi: str,
        *,
        limit: int | None = None,
        reads: int | None = None,
    ) -> Iterator[dict[Pair, Placements]]:
        """A publisher's edges in a range of the ring, of all levels, page by page.

        At most `limit` edges a page, and what so many `reads` are enough for.
        """
        wanted = RingRead(self.level(publisher_id), lo, hi)
        placements: dict[str, Placements] = {}
        for read in islice(iter(wanted.next_read, None), reads):
            request = self.followers.page_request(publisher_id, read, limit)
            request["ProjectionExpression"] = "shard_id, edge, version"
            answer = self.followers.client.query(**request)
            for pair, home in _placements(map(_edge_of, answer["Items"])).items():
                placements.setdefault(pair[0], {}).update(home)
            wanted.page_read(read, page_of(answer))
            if edges := wanted.take():
                users = filter(placements.__contains__, map(ring.follower_of, edges))
                yield {(user, publisher_id): placements.pop(user) for user in users}

    def has_edges(self, publisher_id: str, level: int, shard: int) -> bool:
        """Whether any edge is in this shard; items that are none do not count."""
        lo, hi = (ring.shard_start(each, level) for each in (shard, shard + 1))
        request = self.followers.page_request(publisher_id, Read(level, shard, lo, hi))
        request["ProjectionExpression"] = "shard_id, edge, version"
        while True:
            answer = self.followers.client.query(**request)
            if any(map(_edge_of, answer["Items"])):
                return True
            if "LastEvaluatedKey" not in answer:
                return False
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def some_edges(self, publisher_id: str, size: int) -> list[dict[Pair, Placements]]:
        """So many edges from a random place of the ring on, all if there are no more.

        Of a publisher with many shards and few edges, those of some shards only.
        """
        place = f"{int(clock.chance() * ring.RING_SIZE):016x}"
        pages: list[dict[Pair, Placements]] = []
        for lo, hi in ((place, ring.END), (ring.START, place)):
            for page in self.ring(publisher_id, lo, hi, limit=size, reads=READS_OF_A_SAMPLE):
                pages.append(dict(islice(page.items(), size)))
                size -= len(pages[-1])
                if size == 0:
                    return pages
        return pages

    def placements(self, levels: Mapping[Pair, int]) -> dict[Pair, Placements]:
        """Where the edges of these pairs are, each looked for up to the level that is given."""
        keys = [
            edge_key(publisher_id, user_id, level)
            for (user_id, publisher_id), top in levels.items()
            for level in range(top + 1)
        ]
        return _placements(map(_edge_of, self._get_all(self.followers.table, keys)))

    def row(self, pair: Pair) -> Follow | None:
        """The row of this pair; one that never was is unfollowed, at version 0.

        None if there is an item that is no row.
        """
        try:
            return self.following.get(*pair)
        except (KeyError, ValueError):
            return None

    def rows(self, pairs: Iterable[Pair]) -> dict[Pair, Follow]:
        """The rows of these pairs, as far as there are any."""
        keys = [row_key(*pair) for pair in pairs]
        rows = filter(None, map(_row_of, self._get_all(self.following.table, keys)))
        return {(row.user_id, row.publisher_id): row for row in rows}

    def level(self, publisher_id: str) -> int:
        """The publisher's level when it was first asked for."""
        level = self._levels.get(publisher_id)
        if level is None:
            if len(self._levels) >= MAX_LEVELS:
                self._levels.clear()
            level = self.level_now(publisher_id)
            self._levels[publisher_id] = level
        return level

    def level_now(self, publisher_id: str) -> int:
        """The highest level where edges may be: the publisher's own, or one that was `see`n."""
        own = self.publishers.shards(publisher_id).level
        return max(own, self._above.get(publisher_id, 0))

    def see(self, publisher_id: str, level: int) -> int:
        """Look at this level, too, from now on, because an edge is there; the publisher's own."""
        # Behind the edge: the row is raised before anything is written at a level.
        own = self.publishers.shards(publisher_id).level
        if level > own:
            self._above[publisher_id] = max(level, self._above.get(publisher_id, 0))
        self._levels[publisher_id] = max(level, own)
        return own

    def raise_level(self, publisher_id: str, level: int) -> None:
        """Raise the publisher's own level to this one, unless it is there already."""
        self.publishers.raise_to(publisher_id, level, now_ms=clock.now_ms())
        if self._above.get(publisher_id, 0) <= level:
            self._above.pop(publisher_id, None)

    def unite(self, row: Follow, placements: Placements) -> None:
        """Of an edge that is at several levels, keep the highest of the row's version.

        Readers that began when it was there do not miss the others. A newer follow's edge stays.
        Raises `TryLater` if the publisher's row does not know its level: nobody looks there.
        """
        top = self.publishers.shards(row.publisher_id).level
        right = [level for level, version in placements.items() if version == row.version]
        kept = max((level for level in right if level <= top), default=None)
        if kept is None:
            raise TryLater("The publisher's row has to be raised first.")
        for level in placements.keys() - {kept}:
            self.followers.remove(row.publisher_id, row.user_id, version=row.version, level=level)

    def levels(self, pairs: Collection[Pair]) -> dict[Pair, int]:
        """The levels of these pairs' publishers."""
        publishers = list({publisher_id for _, publisher_id in pairs})
        levels = dict(zip(publishers, self.threads.map(self.level, publishers), strict=True))
        return {pair: levels[pair[1]] for pair in pairs}

    def count(self, table: str) -> int | None:
        """About how many items the table holds: DynamoDB counts them every six hours."""
        return self.following.client.describe_table(TableName=table)["Table"].get("ItemCount")

    def raise_row(self, seen: Follow, version: int) -> None:
        """Give the row a higher version; where there is none, put the end of a follow.

        Raises `TryLater` if it changed meanwhile.
        """
        client, table = self.following.client, self.following.table
        key = row_key(seen.user_id, seen.publisher_id)
        try:
            if seen.version:
                client.update_item(
                    TableName=table,
                    Key=key,
                    UpdateExpression="SET version = :version",
                    ConditionExpression="version = :seen",
                    ExpressionAttributeValues={
                        ":version": number(version),
                        ":seen": number(seen.version),
                    },
                )
                return
            tombstone = {
                "state": text(UNFOLLOWED),
                "version": number(version),
                EXPIRES_AT: number(clock.now_ms() // 1000 + TOMBSTONE_SECONDS),
            }
            client.put_item(
                TableName=table,
                Item={**key, **tombstone},
                ConditionExpression="attribute_not_exists(user_id)",
            )
        except client.exceptions.ConditionalCheckFailedException:
            raise TryLater("The follow changed meanwhile.") from None

    def _scan(self, table: str, **request: Any) -> Iterator[Any]:
        while True:
            answer = self.following.client.scan(TableName=table, ConsistentRead=True, **request)
            yield answer
            if "LastEvaluatedKey" not in answer:
                return
            request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]

    def _get_all(self, table: str, keys: Sequence[Any]) -> list[Item]:
        parts = [keys[start : start + MAX_KEYS] for start in range(0, len(keys), MAX_KEYS)]
        if len(parts) == 1:
            # A look has no more, and is on a thread itself: it must not wait for another one.
            return self._get(table, parts[0])
        read = self.threads.map(lambda part: self._get(table, part), parts)
        return [item for items in read for item in items]

    def _get(self, table: str, keys: Sequence[Any]) -> list[Item]:
        found: list[Item] = []
        left: Any = keys
        for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):
            request: Any = {table: {"Keys": left, "ConsistentRead": True}}
            answer: Any = self.following.client.batch_get_item(RequestItems=request)
            found += answer["Responses"].get(table, [])
            left = answer.get("UnprocessedKeys", {}).get(table, {}).get("Keys", [])
            if not left:
                return found
        raise TryLater("The tables are read faster than they take.")


def _placements(edges: Iterable[Edge | None]) -> dict[Pair, Placements]:
    """Edges by relation and level, without items that are none."""
    found: dict[Pair, Placements] = {}
    for pair, level, version in filter(None, edges):
        found.setdefault(pair, {})[level] = version
    return found


def _edge_of(item: Item) -> Edge | None:
    """Relation, level and version; None for an item that the service cannot have written."""
    key = _key_of(item)
    publisher_id, _, shard = key[0].rpartition("#")
    user_id = ring.follower_of(key[1])
    try:
        level, version = int(shard.partition(".")[0]), int(item["version"]["N"])
    except (KeyError, ValueError):
        return None
    if not (publisher_id and user_id and 0 <= level <= HIGHEST_LEVEL):
        return None
    is_in_place = key == _key_of(edge_key(publisher_id, user_id, level))
    return ((user_id, publisher_id), level, version) if is_in_place else None


def _row_of(item: Item) -> Follow | None:
    """The row; None for an item that the service cannot have written."""
    try:
        row = follow_of(item)
    except (KeyError, ValueError):
        return None
    return row if row.version > 0 and row.state in (FOLLOWED, UNFOLLOWED) else None


def _key_of(item: Item, table: Table = FOLLOWERS) -> Key:
    assert table.sort_key
    return get_text(item, table.partition_key), get_text(item, table.sort_key)
