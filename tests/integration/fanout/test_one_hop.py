"""PLAN delivers to few followers by itself, whatever happens meanwhile: through its handler."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fanfold import names
from fanfold.aws import threads
from fanfold.fanout import plan
from fanfold.follows import follower_estimate
from tests.service import POST, Json, System

LANES = [queue.name for queue in names.LANES]


def order(system: System, *, group: str = "ada", receives: int = 1, ref_id: str = POST) -> Json:
    """An event with the order to plan a fan-out."""
    command = {"version": 1, "type": "fanout.plan", "fanout_id": ref_id}
    record = system.record("Publish", command, times_received=receives)
    record["attributes"]["MessageGroupId"] = group
    return {"Records": [record]}


def published(system: System, count: int, key: str = "post-1") -> list[str]:
    """Publish to `count` followers; returns them. The order to plan is the caller's."""
    users = system.give_followers(count)
    system.publish(key)
    system.bodies("Publish")
    return users


def waiting(system: System) -> int:
    """The number of orders in the lanes."""
    return sum(map(system.waiting, LANES))


def assert_delivered(system: System, users: list[str], ref_id: str = POST) -> None:
    """Every follower has the post, each is counted once, and nothing is left to do."""
    assert system.reached(ref_id) == users
    row = system.ledger(ref_id)
    assert (row.state, row.delivered, row.pending) == ("complete", len(users), frozenset())
    assert (row.segments, row.resume) == (1, {})
    assert ref_id not in system.open_fanouts()
    assert list(system.fanouts.stalled_ids()) == []


@pytest.mark.parametrize("count", [1, 26, follower_estimate.SAMPLE_EDGES - 1])
def test_a_ring_that_the_sample_holds_is_delivered_in_one_hop(
    system: System, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(plan, "ONE_HOP_SECONDS", 60.0)  # this machine may be busy
    users = published(system, count)
    assert system.take(order(system)) == []
    assert_delivered(system, users)
    assert system.ledger().followers == count
    assert waiting(system) == 0


def test_a_ring_beyond_the_sample_goes_to_the_express_lane(system: System) -> None:
    users = published(system, follower_estimate.SAMPLE_EDGES + 1)
    system.take(order(system))
    assert (system.ledger().state, system.reached()) == ("delivering", [])
    assert system.waiting("Express") == 1
    system.pump()
    assert_delivered(system, users)


# A batch


def test_a_batch_of_ten_posts_shares_one_loop(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "ONE_HOP_SECONDS", 60.0)  # this machine may be busy
    door = system.door("plan")
    users = system.give_followers(60)
    ref_ids = [str(system.publish(f"post-{number}").body["ref_id"]) for number in range(10)]
    system.bodies("Publish")
    loop, have_come = door.planning.loop, threading.Semaphore(0)
    plain_run, plain_calls = type(loop).run, loop.transport.calls
    plain_write, is_first = system.unretried.batch_write_item, threading.Lock()
    opened: list[str] = []

    def run_in_loop(self: Any, *args: Any) -> Any:
        have_come.release()
        return plain_run(self, *args)

    def write(**request: Any) -> Any:
        if is_first.acquire(blocking=False):  # the first delivery waits for all others to join
            for _ in ref_ids:
                assert have_come.acquire(timeout=60)
        return plain_write(**request)

    def calls() -> Any:
        opened.append("calls")
        return plain_calls()

    monkeypatch.setattr(type(loop), "run", run_in_loop)
    monkeypatch.setattr(type(loop.transport), "calls", lambda _self: calls())
    monkeypatch.setattr(system.unretried, "batch_write_item", write)
    with threads.pool(len(ref_ids)) as messages:
        monkeypatch.setattr(door, "MESSAGES", messages)
        records = [each for ref_id in ref_ids for each in order(system, ref_id=ref_id)["Records"]]
        assert system.take({"Records": records}) == []
    for ref_id in ref_ids:
        assert_delivered(system, users, ref_id)
    assert len(opened) == 1


# What the tables leave undone


@pytest.mark.parametrize("table", ["Posts", "Fanouts", "Publishers"])
def test_a_row_that_stays_unprocessed_fails_the_message_and_nothing_is_decided(
    system: System, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    users = published(system, 3)
    plain = system.dynamodb.batch_get_item

    def leave(RequestItems: Json) -> Any:  # noqa: N803
        rest = {name: each for name, each in RequestItems.items() if name != table}
        answer: Json = dict(plain(RequestItems=rest)) if rest else {"Responses": {}}
        left = {name: each for name, each in RequestItems.items() if name == table}
        return {**answer, "UnprocessedKeys": left}

    with monkeypatch.context() as throttled:
        throttled.setattr(system.dynamodb, "batch_get_item", leave)
        assert len(system.take(order(system))) == 1
    assert (system.ledger().state, system.reached(), waiting(system)) == ("queued", [], 0)
    assert system.rejected("Publish") == []
    system.take(order(system, receives=2))
    system.pump()
    assert_delivered(system, users)


# Whose post it is


@pytest.mark.parametrize("group", ["eve", "", "a#b"])
def test_a_group_that_names_somebody_else_changes_nothing(system: System, group: str) -> None:
    """The group is a hint: whose followers receive the post, the ledger says."""
    system.edges_table.put_all(("eve", user, 1, 0) for user in ("mallory", "follower-1"))
    users = published(system, 3)
    assert system.take(order(system, group=group)) == []
    assert_delivered(system, users)
    assert waiting(system) == 0
