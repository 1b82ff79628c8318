"""Ways of choosing a follower's shard on the model of DynamoDB: ours, and those of the articles.

Theirs are suffixes 1 to N, drawn or computed as a hash modulo N, with an N that is cached.
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
# The number of shards doubles after each third of the follows but the last.
GROWTHS = 2
# One follow of this many is sent again, because its answer was lost.
SENT_AGAIN = 100


class Sharding(Protocol):
    """Where a publisher's edges lie; its shards have doubled `growths` times."""

    def follow(self, follower: str, growths: int) -> None:
        """Write an edge, by a writer who knows of `growths` doublings."""

    def unfollow(self, follower: str, growths: int) -> None:
        """Delete the edge."""

    def read(self, growths: int) -> Counter[str]:
        """How often each follower is found by a reader who knows of `growths` doublings."""


def _client() -> Any:
    database = Database(Clock())
    database.create(schema_of(names.FOLLOWERS))
    return dynamodb.Client(database, validates=False)


@dataclass
class Levels:
    """Ours: computed from the top bits of a hash, and readers read every level."""

    edges_table: EdgesTable = field(
        default_factory=lambda: EdgesTable(_client(), names.FOLLOWERS.name)
    )

    def follow(self, follower: str, growths: int) -> None:
        self.edges_table.put(PUBLISHER, follower, version=1, level=growths)

    def unfollow(self, follower: str, growths: int) -> None:
        """Delete it at every level, like `Edges.remove`."""
        for level in range(growths + 1):
            self.edges_table.remove(PUBLISHER, follower, version=2, level=level)

    def read(self, growths: int) -> Counter[str]:
        wanted = RingRead(growths, ring.START, ring.END)
        pages = self.edges_table.edges(PUBLISHER, wanted)
        return Counter(ring.follower_of(edge) for page in pages for edge in page)


@dataclass
class Modulo:
    """The articles' calculated suffix: a hash modulo the number of shards."""

    client: Any = field(default_factory=_client)

    def suffixes(self, follower: str, shards: int) -> list[int]:
        """The shards where an edge is written or deleted."""
        return [int(md5(follower.encode()).hexdigest(), 16) % shards + 1]

    def follow(self, follower: str, growths: int) -> None:
        (suffix,) = self.suffixes(follower, 2**growths)
        self.client.put_item(TableName=names.FOLLOWERS.name, Item=_key(suffix, follower))

    def unfollow(self, follower: str, growths: int) -> None:
        (suffix,) = self.suffixes(follower, 2**growths)
        self.client.delete_item(TableName=names.FOLLOWERS.name, Key=_key(suffix, follower))

    def read(self, growths: int) -> Counter[str]:
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
        return [self.random.randint(1, shards)]

    def unfollow(self, follower: str, growths: int) -> None:
        """Delete it in every shard: nobody knows in which it lies."""
        for shard in range(2**growths):
            key = _key(shard + 1, follower)
            self.client.delete_item(TableName=names.FOLLOWERS.name, Key=key)


def _key(suffix: int, follower: str) -> dict[str, Any]:
    return {"shard_id": text(f"{PUBLISHER}#{suffix}"), "edge": text(follower)}


@dataclass(frozen=True)
class Shown:
    """What a rush, in which the shards double twice, shows of a sharding."""

    missed: list[int]  # by a reader whose cache is 0, 1 or 2 doublings old
    twice: int  # followers found more than once
    left: int  # edges left after everybody has unfollowed


def show(sharding: Sharding) -> Shown:
    """Let everybody follow while the shards grow, read with caches of any age, and unfollow."""
    followers = [f"user-{number}" for number in range(FOLLOWS)]
    for number, follower in enumerate(followers):
        growths = number * (GROWTHS + 1) // FOLLOWS
        sharding.follow(follower, growths)
        if number % SENT_AGAIN == 0:
            sharding.follow(follower, growths)
    missed = [FOLLOWS - len(sharding.read(GROWTHS - age)) for age in range(GROWTHS + 1)]
    found = sharding.read(GROWTHS)
    for follower in followers:
        sharding.unfollow(follower, GROWTHS)
    left = sharding.read(GROWTHS).total()
    return Shown(missed, sum(count > 1 for count in found.values()), left)
