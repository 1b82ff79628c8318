"""The cost of reading a whole ring, by the level that its publisher has grown to."""

from __future__ import annotations

from random import Random
from typing import Any

from fanfold import names
from fanfold.follows import ring
from fanfold.follows.ring_reader import RingRead
from proof.model.clock import Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import READ, Meter
from proof.model.dynamodb.database import Database
from proof.simulation.stage import stores
from proof.simulation.timed.system import PUBLISHER
from proof.simulation.timed.tables import FOLLOWER, store_edge
from proof.simulation.world.schemas import schema_of


def read_units_of(followers: int, level: int) -> float:
    """Read units of all followers of a publisher that grew level by level.

    Each level took twice as many follows as the one before.
    """
    database = Database(Clock(), meter=Meter())
    database.create(schema_of(names.FOLLOWERS))
    table, random = database.table(names.FOLLOWERS.name), Random(level)
    levels = range(level + 1)
    placements = random.choices(levels, [2**each for each in levels], k=followers)
    for number, placed in enumerate(placements):
        edge = ring.edge(FOLLOWER.format(number))
        shard = ring.shard_of(ring.position_of(edge), placed)
        store_edge(table, ring.shard_key(PUBLISHER, placed, shard), edge)
    client: Any = dynamodb.Client(database, validates=False)
    wanted = RingRead(level, ring.START, ring.END)
    pages = stores(client).edges.edges(PUBLISHER, wanted)
    if sum(map(len, pages)) != followers:
        raise RuntimeError(f"Not all of the {followers:,} followers were read.")
    assert database.meter is not None
    return database.meter.of(names.FOLLOWERS.name, READ)
