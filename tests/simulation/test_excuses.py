"""What checks do not hold against the product, because nothing promises it; and no more than that.

A world in which all went well goes on with a course that is right, and then with one that is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from fanfold import contract, names
from fanfold.messages import DeliverSegment
from simulation import requests
from simulation.checks import ledger, work
from simulation.checks.evidence import Evidence
from simulation.clients import BotoClient
from simulation.lambdas import dlq_url, installed
from simulation.world import World
from tests.simulation.spoilings import (
    POST,
    PUBLISHER,
    SENT,
    acting,
    entry_of,
    fanout,
    gone,
    keyed,
    later,
    settled,
)


@pytest.fixture
def world() -> Iterator[World]:
    with installed():
        yield settled()


# A straggler whose order was given up


def write_again(world: World, user: str) -> None:
    """A second worker writes an entry of the post."""
    item = world.row(names.TIMELINES, keyed(entry_of(world, user, POST)))
    items = {names.TIMELINES.name: [{"PutRequest": {"Item": item}}]}
    dynamodb = BotoClient("dynamodb", 1)
    acting(world, "deliver on Express", lambda: dynamodb.batch_write_item(RequestItems=items))


def give_up(world: World, ref_id: str) -> None:
    """An order is a dead letter after its last hand-back."""
    order = DeliverSegment(fanout_id=ref_id, segment=0, segments=1, hops=world.max_hops)
    body = json.dumps(order.message(group="g").content, separators=(",", ":"))
    world.sqs.send_message(QueueUrl=dlq_url(names.EXPRESS), MessageBody=body)


def said_of_writes(world: World) -> list[str]:
    world.faults.hot = frozenset({"ann"})
    return [*work.stragglers_have_nobody_written_again(Evidence(world))]


def test_a_straggler_may_be_written_twice_after_its_order_was_given_up(world: World) -> None:
    give_up(world, POST)
    write_again(world, "ann")
    assert said_of_writes(world) == []


def test_a_straggler_is_not_written_three_times(world: World) -> None:
    give_up(world, POST)
    write_again(world, "ann")
    write_again(world, "ann")
    assert "Beside 1 stragglers" in said_of_writes(world)[0]


def test_nobody_else_is_written_again_after_an_order_was_given_up(world: World) -> None:
    give_up(world, POST)
    write_again(world, "bob")
    assert "Beside 1 stragglers" in said_of_writes(world)[0]


@pytest.mark.parametrize("given_up", [(), (SENT,)], ids=["none", "another post's"])
def test_a_straggler_is_written_once_if_its_order_was_not_given_up(
    world: World, given_up: tuple[str, ...]
) -> None:
    for ref_id in given_up:
        give_up(world, ref_id)
    write_again(world, "ann")
    assert "Beside 1 stragglers" in said_of_writes(world)[0]


# A post that is delivered again, because the ledger was restored without it


def publish_again(world: World) -> None:
    """The row of a fan-out is lost, and its post is published again by the queue."""
    gone(world, names.FANOUTS, {"fanout_id": POST})
    event = {"type": contract.POST_PUBLISHED, "publisher_id": PUBLISHER, "ref_id": POST}
    acting(world, "restore", lambda: requests.send(world, {"version": 1, **event}))


def delivered(world: World) -> int:
    return int(world.row(names.FANOUTS, keyed({"fanout_id": POST}))["delivered"]["N"])


def test_who_unfollowed_between_two_deliveries_keeps_an_entry_that_is_not_counted(
    world: World,
) -> None:
    first = delivered(world)
    acting(world, "bob", lambda: requests.relate(world, "unfollow", "bob", PUBLISHER))
    publish_again(world)
    assert delivered(world) == first - 1
    assert world.row(names.TIMELINES, keyed(entry_of(world, "bob", POST)))
    assert [*ledger.the_ledger_is_right(Evidence(world))] == []


def test_a_second_delivery_is_counted_exactly_if_nobody_changed_between(world: World) -> None:
    publish_again(world)
    assert [*ledger.the_ledger_is_right(Evidence(world))] == []
    row = world.row(names.FANOUTS, keyed({"fanout_id": POST}))
    fanout(world, POST, delivered=later(row["delivered"]))
    (said,) = ledger.the_ledger_is_right(Evidence(world))
    assert "entries, and the ledger says" in said


def test_a_first_delivery_is_counted_exactly_though_somebody_unfollows_after_it(
    world: World,
) -> None:
    acting(world, "bob", lambda: requests.relate(world, "unfollow", "bob", PUBLISHER))
    row = world.row(names.FANOUTS, keyed({"fanout_id": POST}))
    fanout(world, POST, delivered=later(row["delivered"]))
    (said,) = ledger.the_ledger_is_right(Evidence(world))
    assert "entries, and the ledger says" in said
