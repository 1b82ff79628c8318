"""Two ways of choosing a follower's shard: ours, and the articles' on the same model of DynamoDB.

Theirs: suffixes 1 to N, drawn or computed as a hash modulo N, and an N that is read from a cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import md5
from random import Random
from typing import Any, Protocol

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.database import Database
from fanfold import names
from fanfold.aws.items import text
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.ring_reader import RingRead
from simulation.schemas import schema_of

PUBLISHER = "ada"
FOLLOWS = 6_000
# The number of shards doubles twice on the way, after a third of the follows each.
GROWTHS = 2
# One follow in so many is sent again, because its answer was lost.
SENT_AGAIN = 100


class Homes(Protocol):
    """Where a publisher's followers are kept; it has `growths` doublings behind it."""

    def follow(self, follower: str, growths: int) -> None:
        """Write an edge, as a writer does who knows of so many growths."""

    def unfollow(self, follower: str, growths: int) -> None:
        """Delete it."""

    def read(self, growths: int) -> Counter[str]:
        """How often each follower is found, by a reader who knows of so many growths."""


def _client() -> Any:
    database = Database(Clock())
    database.create(schema_of(names.FOLLOWERS))
    return dynamodb.Client(database, validates=False)


@dataclass
class Levels:
    """Ours: computed from the top bits of a hash, and a reader looks at every level."""

    followers: EdgesTable = field(
        default_factory=lambda: EdgesTable(_client(), names.FOLLOWERS.name)
    )

    def follow(self, follower: str, growths: int) -> None:
        """Put it at the level that the writer knows."""
        self.followers.put(PUBLISHER, follower, version=1, level=growths)

    def unfollow(self, follower: str, growths: int) -> None:
        """Delete it at every level, as `Edges.remove` does."""
        for level in range(growths + 1):
            self.followers.remove(PUBLISHER, follower, version=2, level=level)

    def read(self, growths: int) -> Counter[str]:
        """All levels, merged."""
        wanted = RingRead(growths, ring.START, ring.END)
        pages = self.followers.edges(PUBLISHER, wanted)
        return Counter(ring.follower_of(edge) for page in pages for edge in page)


@dataclass
class Modulo:
    """The articles' calculated suffix: a hash modulo the number of shards."""

    client: Any = field(default_factory=_client)

    def suffixes(self, follower: str, shards: int) -> list[int]:
        """The shards that an edge is written to, or deleted at."""
        return [int(md5(follower.encode()).hexdigest(), 16) % shards + 1]

    def follow(self, follower: str, growths: int) -> None:
        """Put it into one shard of those that the writer knows."""
        (suffix,) = self.suffixes(follower, 2**growths)
        self.client.put_item(TableName=names.FOLLOWERS.name, Item=_key(suffix, follower))

    def unfollow(self, follower: str, growths: int) -> None:
        """Delete it in the shard that it is computed to be in."""
        (suffix,) = self.suffixes(follower, 2**growths)
        self.client.delete_item(TableName=names.FOLLOWERS.name, Key=_key(suffix, follower))

    def read(self, growths: int) -> Counter[str]:
        """All shards that the reader knows, one after the other."""
        return Counter(
            follower for shard in range(2**growths) for follower in self._shard(shard + 1)
        )

    def _shard(self, suffix: int) -> Iterator[str]:
        request = {
            "TableName": names.FOLLOWERS.name,
            "KeyConditionExpression": "shard_id = :shard",
            "ExpressionAttributeValues": {":shard": _key(suffix, "x")["shard_id"]},
            "ConsistentRead": True,
        }
        for page in self.client.get_paginator("query").paginate(**request):
            yield from (item["edge"]["S"] for item in page["Items"])


@dataclass
class Drawn(Modulo):
    """The articles' random suffix."""

    random: Random = field(default_factory=lambda: Random(1))

    def suffixes(self, follower: str, shards: int) -> list[int]:
        """Any of them."""
        return [self.random.randint(1, shards)]

    def unfollow(self, follower: str, growths: int) -> None:
        """Delete it in every shard: nobody knows which."""
        for shard in range(2**growths):
            key = _key(shard + 1, follower)
            self.client.delete_item(TableName=names.FOLLOWERS.name, Key=key)


def _key(suffix: int, follower: str) -> dict[str, Any]:
    return {"shard_id": text(f"{PUBLISHER}#{suffix}"), "edge": text(follower)}


@dataclass(frozen=True)
class Shown:
    """What one way comes to, over a rush in which the shards doubled twice."""

    missed: list[int]  # followers that a reader misses whose cache is so many growths old
    twice: int  # followers found more than once
    left: int  # edges that are left after everybody has unfollowed


def show(homes: Homes) -> Shown:
    """Let everybody follow while the shards grow, read with caches of any age, and unfollow."""
    followers = [f"user-{number}" for number in range(FOLLOWS)]
    for number, follower in enumerate(followers):
        growths = number * (GROWTHS + 1) // FOLLOWS
        homes.follow(follower, growths)
        if number % SENT_AGAIN == 0:
            homes.follow(follower, growths)
    missed = [FOLLOWS - len(homes.read(GROWTHS - age)) for age in range(GROWTHS + 1)]
    found = homes.read(GROWTHS)
    for follower in followers:
        homes.unfollow(follower, GROWTHS)
    left = homes.read(GROWTHS).total()
    return Shown(missed, sum(count > 1 for count in found.values()), left)
