"""Tables of millions of rows: followers are made up at each read, and entries only counted."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from random import Random

from fanfold import names
from fanfold.follows import ring
from proof.model.clock import START_MS, Clock
from proof.model.dynamodb.database import Database
from proof.model.dynamodb.partitions import Key, Partition, Place, Range, Row
from proof.model.dynamodb.tables import Hooks, Table
from proof.model.dynamodb.values import Item, size_of_item
from proof.simulation.world.schemas import schema_of

# As long as an id of Cognito.
FOLLOWER = "f0110000-0000-4000-8000-{:012d}"
# A made-up follower is named for its position on the ring, so that no two are equal.
MADE_UP = "f0110000-0000-4000-{}-{}"
# Edges of one slice of a made-up ring. A slice may be made again for each read: about one page.
SLICE_EDGES = 2_500
_ONE, _AT = ("N", Decimal(1)), ("N", Decimal(START_MS // 1000))


@dataclass
class Written:
    users: set[str] = field(default_factory=set)
    puts: int = 0
    last_at: float = 0.0
    by_time: dict[int, int] = field(default_factory=dict)  # puts by tenths of a second


class CountedTimelines(Table):
    """The timelines without their items: millions of them would not fit into memory.

    Units and throttles are the model's: an entry is below 1 KB, so a put is one unit whether or
    not the entry was there.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__(schema_of(names.TIMELINES), clock, Hooks())
        self.written: dict[str, Written] = {}

    def change(self, key: Key, new: Row | None, *, at: float | None = None) -> None:
        del at  # nothing is old enough to expire
        assert new is not None, "DELIVER deletes nothing."
        written = self.written.setdefault(key.place[0], Written())
        now = self._clock.elapsed
        written.puts += 1
        tenth = int(10 * now)
        written.by_time[tenth] = written.by_time.get(tenth, 0) + 1
        if key.partition not in written.users:
            written.users.add(key.partition)
            written.last_at = now


class MadeUpRing(Partition):
    """About `followers` edges, uniform on the ring, made up at each read.

    A range always has the same edges. Reading them costs as much as reading stored edges.
    """

    def __init__(self, shard_id: str, followers: int, seed: int) -> None:
        super().__init__()
        self._shard_id = shard_id
        self._slices = 1 << max(0, round(math.log2(followers / SLICE_EDGES)))
        self._mean = followers / self._slices
        self._seed = seed
        self._slice = lru_cache(maxsize=256)(self._make)

    def walk(
        self, within: Range, *, after: Place | None, forward: bool
    ) -> Iterator[tuple[Place, Row]]:
        assert forward, "Nobody reads followers backwards."
        low = max(within.low, after[0]) if after is not None else within.low
        first = ring.shard_of(ring.position_of(low), self._slices.bit_length() - 1)
        for number in range(first, self._slices):
            edges = self._slice(number)
            for edge in edges[bisect_left(edges, low) :]:
                if not within.holds(edge):
                    return
                if after is None or edge > after[0]:
                    yield (edge,), _row(self._shard_id, edge)

    def _make(self, number: int) -> list[str]:
        """The edges of one slice: a Poisson number, approximated by the normal distribution."""
        random = Random(f"{self._seed} {number}")
        width = ring.RING_SIZE // self._slices
        count = max(0, round(random.gauss(self._mean, math.sqrt(self._mean))))
        positions = {number * width + random.randrange(width) for _ in range(count)}
        return [_made_up(f"{position:016x}") for position in sorted(positions)]


def _made_up(position: str) -> str:
    return f"{position}#{MADE_UP.format(position[:4], position[4:])}"


def follow(database: Database, publisher_id: str, followers: int) -> None:
    """Give a publisher followers, at no cost."""
    table = database.table(names.FOLLOWERS.name)
    for edge in _edges(followers):
        store_edge(table, ring.shard_key(publisher_id, 0, 0), edge)


def store_edge(table: Table, shard_id: str, edge: str) -> None:
    """Store an edge in the table of followers, at no cost."""
    table.change(Key(shard_id, (edge,)), _row(shard_id, edge))


def _row(shard_id: str, edge: str) -> Row:
    """An edge as `EdgesTable` writes it."""
    item: Item = {"shard_id": ("S", shard_id), "edge": ("S", edge), "version": _ONE, "at": _AT}
    return Row(item, size_of_item(item))


def make_up_followers(database: Database, publisher_id: str, followers: int, seed: int) -> None:
    """Give a publisher about `followers` followers, none of which is stored."""
    table = database.table(names.FOLLOWERS.name)
    shard_id = ring.shard_key(publisher_id, 0, 0)
    table.space.partitions[shard_id] = MadeUpRing(shard_id, followers, seed)


@lru_cache(maxsize=2)
def _edges(followers: int) -> tuple[str, ...]:
    return tuple(sorted(ring.edge(FOLLOWER.format(number)) for number in range(followers)))
