"""The bench `ordinary`: its ways do the same job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proof.bench.ordinary.bench import WAYS
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
