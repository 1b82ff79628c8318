"""What reading a whole ring costs, by the level that its publisher has grown to."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import READ, Meter
from aws_model.dynamodb.database import Database
from aws_model.dynamodb.partitions import Row
from aws_model.dynamodb.tables import Key
from aws_model.dynamodb.values import Item, size_of_item
from bench.shards.rush import FOLLOWER, PUBLISHER
from fanfold import names
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.ring_reader import RingRead
from simulation.schemas import schema_of


def read_units_of(followers: int, level: int) -> float:
    """Read units of enumerating so many followers, at the levels that doublings leave them at.

    Each level took twice as many a second as the one before, for as long.
    """
    database = Database(Clock(), meter=Meter())
    database.create(schema_of(names.FOLLOWERS))
    table, random = database.table(names.FOLLOWERS.name), Random(level)
    levels = range(level + 1)
    placements = random.choices(levels, [2**each for each in levels], k=followers)
    for number, home in enumerate(placements):
        edge = ring.edge(FOLLOWER.format(number))
        shard = ring.shard_of(ring.position_of(edge), home)
        shard_id = ring.shard_key(PUBLISHER, home, shard)
        item: Item = {
            "shard_id": ("S", shard_id),
            "edge": ("S", edge),
            "version": ("N", Decimal(1)),
        }
        table.change(Key(shard_id, (edge,)), Row(item, size_of_item(item)))
    client: Any = dynamodb.Client(database, validates=False)
    wanted = RingRead(level, ring.START, ring.END)
    pages = EdgesTable(client, names.FOLLOWERS.name).edges(PUBLISHER, wanted)
    if sum(map(len, pages)) != followers:
        raise RuntimeError(f"Not all of the {followers:,} followers were read.")
    assert database.meter is not None
    return database.meter.of(names.FOLLOWERS.name, READ)
