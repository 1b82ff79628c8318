"""The bench `ordinary`: its ways do the same job, and its counts mean what they say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fanfold import names
from proof.bench.ordinary.bench import OURS, WAYS, of_a_batch, publish
from proof.bench.ordinary.plain import Plain
from proof.bench.ordinary.two_hops import TwoHops
from proof.model.dynamodb.capacity import Limits
from proof.simulation.timed.system import POST, PUBLISHER, System
from proof.simulation.timed.tables import follow

CAPACITY = 40_000
# Takes 400 entries a second, of which a second's worth at once.
NARROW = Limits(partition_writes=100)


@pytest.mark.parametrize("way", [way for way in WAYS.values() if way is not TwoHops])
def test_every_way_reaches_all_followers_although_the_table_throttles(
    way: Callable[..., System],
) -> None:
    system = way(CAPACITY, NARROW)
    follow(system.database, PUBLISHER, 1_000)
    system.publish(PUBLISHER, POST)
    system.run_until_complete(POST)
    assert sum(system.meter.throttled.values()) > 0
    assert len(system.written(POST).users) == 1_000


def test_the_calls_and_units_of_a_publish_are_counted() -> None:
    planned = publish(TwoHops(CAPACITY), 10)
    assert (planned.invocations, planned.calls, planned.calls_to_end) == (2, 14, 15)
    assert planned.units == 9
    # A plain Lambda makes the fewest calls there can be.
    plain = publish(Plain(CAPACITY), 10)
    assert (plain.invocations, plain.calls) == (1, len(["post", "send", "query", "write"]))
    assert plain.units_beside == {"Posts": 2, "Posts index outbox": 1}


@pytest.mark.parametrize("way", [WAYS[OURS], TwoHops])
def test_posts_of_another_service_come_in_one_batch(way: Callable[..., System]) -> None:
    system = way(CAPACITY)
    assert of_a_batch(system, 10) < 1
    assert system.mappings[system.lanes[names.PUBLISH].url].invocations == 1
