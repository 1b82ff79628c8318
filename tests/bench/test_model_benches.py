"""The benches on the capacity model, and the parts that they are made of."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from fanfold import names
from fanfold.timeline.entries import Entry
from proof.bench import runner
from proof.bench.figures import Figure
from proof.model.clock import Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import Limits, Meter, Throttle
from proof.model.dynamodb.database import Database
from proof.simulation.stage import stores
from proof.simulation.timed.system import POST, PUBLISHER, System
from proof.simulation.timed.tables import CountedTimelines, follow
from proof.simulation.world.schemas import schema_of

GATE = 0.7
ENTRY = Entry("2026-11-20T18:00:00.000Z#post", "ada", 1_800_000_000)
# Four entries a second on each of four partitions.
NARROW = Limits(partition_writes=4)


def passes(figure: Figure) -> bool:
    """Whether 70 % of a target is reached; for a ratio close to 1, of its distance from 1."""
    if 1 < figure.target < 2:
        return figure.value - 1 <= (figure.target - 1) / GATE
    return figure.reaches(GATE)


SLOW = [
    pytest.param(name, marks=pytest.mark.slow) for name in ("channels", "fanout", "read-growth")
]


@pytest.mark.parametrize("name", ["fairness", "ordinary", "write-units", *SLOW])
def test_a_short_run_reaches_most_of_every_target(name: str) -> None:
    missed = [figure for figure in runner.run_here(name, short=True).figures if not passes(figure)]
    assert not missed


# Tables


def database(clock: Clock) -> Database:
    made = Database(clock, meter=Meter(Throttle(clock, NARROW)))
    made.create(schema_of(names.TIMELINES), schema_of(names.FOLLOWERS))
    return made


def test_counted_timelines_cost_and_throttle_like_stored_ones() -> None:
    clock, random = Clock(), Random(1)
    real, counted = database(clock), database(clock)
    counted.tables[names.TIMELINES.name] = CountedTimelines(clock)
    for _ in range(40):
        users = [f"user{number}" for number in random.sample(range(30), 5)]
        assert push(real, users) == push(counted, users)
        clock.advance(random.random() / 2)
    assert real.meter is not None
    assert counted.meter is not None
    assert real.meter.units == counted.meter.units
    assert real.meter.throttled == counted.meter.throttled
    assert real.meter.throttled.total() > 0


def push(database: Database, users: list[str]) -> object:
    client: Any = dynamodb.Client(database)
    try:
        return stores(client).entries.push(ENTRY, users)
    except client.exceptions.ProvisionedThroughputExceededException as error:
        return str(error)


# The whole


def published(system: System, followers: int) -> System:
    follow(system.database, PUBLISHER, followers)
    system.publish(PUBLISHER, POST)
    system.run_until_complete(POST)
    return system


def test_every_follower_gets_the_post_even_of_a_cold_table_and_a_seed_repeats_its_run() -> None:
    first, second, other = (
        published(System(4_000, seed=n), 6_000).written(POST) for n in (3, 3, 4)
    )
    assert len(first.users) == 6_000
    assert first.last_at == second.last_at != other.last_at
    cold = published(System(40_000, Limits()), 30_000)
    assert len(cold.written(POST).users) == 30_000
    assert cold.counts.throttled > 0
    assert not cold.counts.failures
