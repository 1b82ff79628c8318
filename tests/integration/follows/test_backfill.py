"""A new follow brings the publisher's newest posts: the orders that are sent, and what they do."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fanfold import contract, names
from fanfold.aws.retries import CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, STEP
from fanfold.errors import Unsent
from fanfold.follows.backfill import POSTS_WHEN_LATE
from fanfold.ids import ref_id_for
from functions import relate
from functions._worker import Received
from tests.service import FailFirst, Json, System, error

FIRST, SECOND = "relation.backfill", "relation.settle"


def order(kind: str, user: str = "bob", publisher: str = "ada") -> Json:
    return {"version": 1, "type": kind, "user_id": user, "publisher_id": publisher}


def orders(system: System) -> list[str]:
    """Take all orders that are visible now, and return their types."""
    return [body["type"] for body in system.bodies("Relation")]


def shown(system: System, user: str = "bob") -> list[str]:
    """The titles in a timeline, newest first."""
    entries = system.timeline(user, limit="100").body["entries"]
    return [entry["body"]["title"] for entry in entries]


def post(system: System, *titles: str, user: str = "ada") -> None:
    """Publish and deliver posts, a second apart."""
    for title in titles:
        system.clock.advance(1)
        assert system.publish(title, user=user, body={"title": title}).status == 202
    system.pump("Publish", "Express")


def test_a_new_follow_shows_the_newest_posts_within_moments(system: System) -> None:
    post(system, "one", "two", "three")
    system.follow("bob")
    assert shown(system) == []
    assert system.pump_once("Relation")
    assert shown(system) == ["three", "two", "one"]
    post(system, "four")
    assert shown(system) == ["four", "three", "two", "one"]


def test_a_backfilled_entry_is_the_one_that_its_fanout_writes(system: System) -> None:
    system.follow("carl")
    post(system, "one")
    (delivered,) = system.rows(names.TIMELINES)
    system.follow("bob")
    assert system.pump_once("Relation")
    backfilled = [row for row in system.rows(names.TIMELINES) if row["user_id"]["S"] == "bob"]
    assert backfilled == [{**delivered, "user_id": {"S": "bob"}}]


# Which orders are sent


def test_orders_are_grouped_by_publisher_so_that_a_rush_of_follows_of_one_waits_alone(
    system: System,
) -> None:
    system.follow("bob")
    system.follow("bob", "eve")
    (row,) = [row for row in system.rows(names.FOLLOWERS) if row["shard_id"]["S"].startswith("eve")]
    keys = {name: row[name] for name in ("shard_id", "edge")}
    system.dynamodb.delete_item(TableName=names.FOLLOWERS.name, Key=keys)  # RELATE puts it again
    found = []
    for seconds in (0, names.API.settled_seconds, names.RELATE.settled_seconds):
        system.clock.advance(seconds)
        records = system.receive("Relation")
        assert system.take({"Records": records}) == []
        for record in records:
            system.delete("Relation", record)
            body = json.loads(record["body"])
            found.append((record["attributes"]["MessageGroupId"], body["publisher_id"]))
    assert all(group == publisher for group, publisher in found)
    assert sorted(group for group, _ in found) == ["ada"] * 2 + ["eve"] * 3


@pytest.mark.parametrize("by_message", [False, True])
def test_only_a_new_follow_sends_the_order_to_backfill(system: System, by_message: bool) -> None:
    def ask(verb: str) -> list[str]:
        system.clock.advance(121)
        if by_message:
            body = {"version": 1, "type": f"follow.{verb}", "user_id": "bob"}
            record = system.record("Publish", {**body, "publisher_id": "ada"})
            assert system.take({"Records": [record]}) == []
        else:
            (system.follow if verb == "added" else system.unfollow)("bob")
        at_once = orders(system)
        system.clock.advance((names.PLAN if by_message else names.API).settled_seconds)
        assert orders(system) == [SECOND]
        return at_once

    assert [ask(verb) for verb in ("added", "added", "removed", "removed", "added")] == [
        [FIRST],
        [],
        [],
        [],
        [FIRST],
    ]


def test_a_follow_whose_edge_is_left_to_relate_is_looked_at_twice_all_the_same(
    system: System, fail_first: FailFirst
) -> None:
    post(system, "one")
    throttled = error("ProvisionedThroughputExceededException")
    fail_first(system.edge_client, "put_item", [throttled] * STEP.attempts)
    assert system.follow("bob").status == 503
    assert orders(system) == []
    system.clock.advance(names.API.settled_seconds)
    assert system.pump_once("Relation")
    assert (system.edges(), shown(system)) == (["bob"], ["one"])
    assert orders(system) == []
    system.clock.advance(names.RELATE.settled_seconds)
    assert system.pump_once("Relation"), "RELATE has put the edge, so it looks once more"
    assert system.waiting("Relation") == 0


def without_first_orders(
    system: System, monkeypatch: pytest.MonkeyPatch, reason: Exception
) -> None:
    """Let the queue refuse the API's orders to backfill."""
    api = system.door("api")
    queue = api.following.relation_queue

    def send(*messages: Any) -> None:
        if messages[0].content["type"] == FIRST:
            raise reason
        queue.send(*messages)

    stub: Any = type("Queue", (), {"send": staticmethod(send)})
    monkeypatch.setattr(api, "following", replace(api.following, relation_queue=stub))


def test_a_follow_is_answered_although_the_order_to_backfill_was_not_sent(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(system, "one")
    without_first_orders(system, monkeypatch, Unsent("not now"))
    assert system.follow("bob").status == 200
    system.clock.advance(names.API.settled_seconds)
    assert system.pump_once("Relation")
    assert (system.waiting("Relation"), shown(system)) == (0, ["one"])


def test_a_follow_fails_with_an_order_that_is_refused_for_good(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_first_orders(system, monkeypatch, error("AccessDeniedException"))
    assert system.follow("bob").status == 500, "or nobody would see that a right is missing"


def test_without_backfill_no_order_is_sent_and_none_that_is_left_writes(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(system, "one")
    api = system.door("api")
    off = replace(relate.backfilling.newest, most=0)
    monkeypatch.setattr(api, "following", replace(api.following, backfills=False))
    monkeypatch.setattr(relate, "backfilling", replace(relate.backfilling, newest=off))
    system.follow("bob")
    assert orders(system) == []
    system.clock.advance(names.API.settled_seconds)
    records = [system.record("Relation", order(FIRST)), *system.receive("Relation")]
    assert system.take({"Records": records}) == []
    assert shown(system) == []


# Orders of one batch


def test_an_unfollow_before_the_order_comes_leaves_the_timeline_empty(system: System) -> None:
    post(system, "one")
    system.follow("bob")
    system.unfollow("bob")
    system.pump("Relation")
    assert system.reached(ref_id_for("ada", "one")) == []


def test_orders_to_backfill_one_timeline_are_carried_out_in_turn(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    names_ = [f"publisher-{number}" for number in range(5)]
    for publisher in names_:
        post(system, publisher, user=publisher)
        system.follow("bob", publisher)
    busy, most = [0], [0]
    plain = relate.backfilling.first

    def first(*args: Any, **more: Any) -> int:
        busy[0] += 1
        most[0] = max(most[0], busy[0])
        try:
            return plain(*args, **more)
        finally:
            busy[0] -= 1

    stub: Any = type("Stub", (), {"first": staticmethod(first)})
    monkeypatch.setattr(relate, "backfilling", stub)
    assert system.pump_once("Relation")
    assert most == [1]
    assert sorted(shown(system)) == names_


def test_a_failed_order_fails_no_other(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    post(system, "one")
    for user in ("bob", "carl"):
        system.follow(user)
    plain = relate.backfilling.entries.client.batch_write_item

    def write(**request: Any) -> Any:
        if "bob" in json.dumps(request):
            raise error("ProvisionedThroughputExceededException")
        return plain(**request)

    monkeypatch.setattr(relate.backfilling.entries.client, "batch_write_item", write)
    records = system.receive("Relation")
    again = system.take({"Records": records})
    (bobs,) = [r["messageId"] for r in records if json.loads(r["body"])["user_id"] == "bob"]
    assert (again, shown(system, "carl"), shown(system, "bob")) == ([bobs], ["one"], [])
    monkeypatch.setattr(relate.backfilling.entries.client, "batch_write_item", plain)
    system.clock.advance(400)
    system.pump("Relation")
    assert shown(system, "bob") == ["one"]


@pytest.mark.parametrize("kind", [FIRST, SECOND])
def test_an_order_is_as_late_as_its_first_sending_however_often_it_is_moved_back(
    system: System, kind: str
) -> None:
    post(system, *map(str, range(POSTS_WHEN_LATE + 2)))
    system.follow("bob")
    orders(system)
    system.clock.advance(300)
    record = system.record("Relation", order(kind))
    first_ms = system.clock.ms - 300_000
    record["messageAttributes"][contract.FIRST_SENT_AT] = {
        "stringValue": str(first_ms),
        "dataType": "String",
    }
    assert system.take({"Records": [record]}) == []
    assert len(shown(system)) == POSTS_WHEN_LATE


@pytest.mark.parametrize(("kind", "name"), [(FIRST, "first"), (SECOND, "second")])
def test_an_order_ends_in_time_for_its_last_call_to_be_answered(
    system: System, monkeypatch: pytest.MonkeyPatch, kind: str, name: str
) -> None:
    ends: list[float] = []

    def note(*_: Any, stop_at: float, **__: Any) -> None:
        ends.append(stop_at)

    monkeypatch.setattr(relate, "backfilling", SimpleNamespace(**{name: note}))
    message, now = relate._read(json.dumps(order(kind))), system.clock.ms
    relate.take(Received("Relation", message, "ada", now, now, "", "", False, stop_at=100.0))
    assert ends == [100.0 - CONNECT_TIMEOUT_SECONDS - READ_TIMEOUT_SECONDS]


def test_a_backfill_has_the_client_that_leaves_every_retry_to_its_pace(system: System) -> None:
    client = relate.backfilling.entries.client
    assert client is system.edge_client  # which does not retry
    assert client is not relate.stores.client
