"""A post on its way from the door into every follower's timeline, through the real handlers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.service import POST, FailFirst, Json, System, error, event, through_lanes


def assert_complete(system: System, users: list[str], ref_id: str = POST) -> None:
    """Every follower has the post once, and the ledger says so."""
    assert system.reached(ref_id) == users
    ledger = system.ledger(ref_id)
    assert (ledger.state, ledger.delivered) == ("complete", len(users))
    assert ledger.pending == frozenset()
    assert ref_id not in system.open_fanouts()


def planned(system: System, count: int = 60) -> list[str]:
    """Publish to `count` followers and let PLAN plan the fan-out; returns the followers."""
    users = system.give_followers(count)
    system.publish()
    with through_lanes():
        system.pump("Publish")
    return users


def segment(system: System, **changed: Any) -> Json:
    """A command to deliver one segment, as an event of its lane."""
    command = json.loads(event("express_lane/segment_deliver")["Records"][0]["body"])
    command.update({"fanout_id": POST, **changed})
    queue = "Express" if command["segments"] == 1 else "Bulk"
    return {"Records": [system.record(queue, command)]}


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut a fan-out into segments of about ten followers, counted from a sample of twenty."""
    monkeypatch.setattr("fanfold.fanout.segment_size.SEGMENT_FOLLOWERS", 10)
    monkeypatch.setattr("fanfold.follows.follower_estimate.SAMPLE_EDGES", 20)


@pytest.mark.usefixtures("small_segments")
def test_a_fanout_of_many_segments_and_pages_is_complete(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold.follows.edges_table.PAGE_EDGES", 26)
    users = planned(system, 150)
    assert system.waiting("Express") == 0
    assert system.waiting("Bulk") == system.ledger().segments >= 8
    system.pump()
    assert_complete(system, users)


@pytest.mark.usefixtures("through_lanes")
def test_followers_their_level_and_the_ledger_are_read_consistently(
    system: System, fail_first: FailFirst
) -> None:
    """Moto's reads always are, so the requests are checked: a new follow must not be missed."""
    system.give_followers(2)
    clients = (system.dynamodb, system.unretried)
    sampled, delivered = (fail_first(client, "query", []) for client in clients)
    looked_up = fail_first(system.dynamodb, "batch_get_item", [])
    system.publish()
    system.pump()
    assert sampled
    assert delivered
    assert len(looked_up) == 2, "by PLAN and by DELIVER"
    rows = [table for request in looked_up for table in request["RequestItems"].values()]
    assert all(read.get("ConsistentRead") for read in (*sampled, *delivered, *rows))


# Faults of the tables


@pytest.mark.parametrize("operation", ["batch_write_item", "query"])
def test_transient_errors_of_a_table_are_retried(
    system: System, fail_first: FailFirst, operation: str
) -> None:
    users = planned(system)
    faults = [error("ProvisionedThroughputExceededException"), error("InternalServerError", 500)]
    calls = fail_first(system.unretried, operation, faults)
    assert system.pump_once("Express")
    assert_complete(system, users)
    assert len(calls) > 2


def test_a_permanent_error_fails_the_message_and_loses_nothing(
    system: System, fail_first: FailFirst
) -> None:
    users = planned(system)
    fail_first(system.unretried, "batch_write_item", [error("AccessDenied")])
    (record,) = system.receive("Express")
    assert system.take({"Records": [record]}) == [record["messageId"]]
    assert system.ledger().pending == {0}
    system.pump()
    assert_complete(system, users)


# Deadline and hand-back


def test_too_little_time_hands_the_segment_back_with_one_more_hop_and_a_delay_up_to_a_limit(
    system: System,
) -> None:
    planned(system)
    system.bodies("Express")
    system.context.ends_at = 14  # less than a hand-back needs
    system.take(segment(system, hops=4))
    assert system.bodies("Express") == [], "not at once"
    system.clock.advance(300)
    (rest,) = system.bodies("Express")
    assert (rest["hops"], rest["segment"], rest["segments"]) == (5, 0, 1)
    assert system.ledger().resume == {}
    system.take(segment(system, hops=12))
    ((_, reason),) = system.rejected("Express")
    assert "no progress in 12 hand-backs" in reason
    assert system.open_fanouts() == [POST], "it stays visibly open"


def test_a_message_with_no_time_left_comes_again_untouched(system: System) -> None:
    system.give_followers(3)
    system.publish()
    system.context.ends_at = 4
    (record,) = system.receive("Publish")
    assert system.take({"Records": [record]}) == [record["messageId"]]
    assert system.ledger().state == "queued"
