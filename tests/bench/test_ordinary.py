"""The bench `ordinary`: its ways do the same job, and its counts mean what they say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from aws_model.dynamodb.capacity import Limits
from bench.ordinary.bench import OURS, WAYS, of_a_batch, publish
from bench.ordinary.plain import Plain
from bench.ordinary.two_hops import TwoHops
from fanfold import names
from simulation.timed.calls import InARow
from simulation.timed.system import POST, PUBLISHER, System
from simulation.timed.tables import follow

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


def test_what_is_always_planned_goes_through_three_functions_and_fifteen_calls() -> None:
    found = publish(TwoHops(CAPACITY), 10)
    assert (found.invocations, found.calls, found.calls_to_end) == (2, 14, 15)
    assert found.units == 9


def test_a_plain_lambda_makes_the_fewest_calls_there_can_be() -> None:
    found = publish(Plain(CAPACITY), 10)
    assert (found.invocations, found.calls) == (1, len(["post", "send", "query", "write"]))
    assert found.units_beside == {"Posts": 2, "Posts index outbox": 1}


def test_cpu_takes_the_plain_lambda_time() -> None:
    free, charged = Plain(CAPACITY), Plain(CAPACITY, cpu_seconds=0.001)
    assert publish(charged, 1_000).seconds > publish(free, 1_000).seconds + 0.8


def test_a_seed_repeats_its_publish() -> None:
    first, second, other = (publish(WAYS[OURS](CAPACITY, seed=n), 100) for n in (3, 3, 4))
    assert first == second != other


def test_calls_at_the_same_time_are_one_of_a_row() -> None:
    row = InARow()
    slow, quick = row.begin(), row.begin()
    row.end(quick)
    after = row.begin()
    row.end(slow)
    assert (slow, quick, after) == (1, 1, 2)
    assert (row.begun, row.ended) == (2, 1)
    row.end(after)
    assert row.begin() == 3


@pytest.mark.parametrize("way", [WAYS[OURS], TwoHops])
def test_posts_of_another_service_come_in_one_batch(way: Callable[..., System]) -> None:
    system = way(CAPACITY)
    assert of_a_batch(system, 10) < 1
    assert system.mappings[system.lanes[names.PUBLISH].url].invocations == 1
