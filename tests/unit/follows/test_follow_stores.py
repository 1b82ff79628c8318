"""Rows of follows, counts of them and edges, on tables of the model: who wins each race."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fanfold import clock
from fanfold.aws.items import text
from fanfold.channels import following
from fanfold.channels.head_table import HeadTable
from fanfold.channels.known_head import KnownHead
from fanfold.errors import TooManyFollows
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.follows_table import TOMBSTONE_SECONDS, FollowsTable
from fanfold.follows.relation import FOLLOWED, UNFOLLOWED, Follow
from fanfold.follows.ring_reader import RingRead
from fanfold.names import FOLLOWERS, FOLLOWING, PUBLISHERS, READERS
from fanfold.timeline.readers import Readers
from tests.stores import ask_again, client_of, written

AT = "2026-11-20T18:00:00.123Z"
NOW_MS = 1_795_197_600_123
ENDS = NOW_MS // 1000 + TOMBSTONE_SECONDS
NEW = Follow(user_id="ben", publisher_id="ada", followed_at=AT, asked_at=5)


@pytest.fixture
def client() -> Any:
    return client_of(FOLLOWING, READERS, FOLLOWERS, PUBLISHERS)


@pytest.fixture
def table(client: Any) -> FollowsTable:
    return FollowsTable(client, FOLLOWING.name, Readers(client, READERS.name), 30)


@pytest.fixture
def edges(client: Any) -> EdgesTable:
    return EdgesTable(client, FOLLOWERS.name)


def count(client: Any) -> int:
    answer = client.get_item(TableName=READERS.name, Key={"user_id": text("ben")})
    return int(answer["Item"]["follows"]["N"]) if "Item" in answer else 0


def follow(table: FollowsTable, publisher: str = "ada", most: int = 9) -> Follow:
    seen = replace(table.get("ben", publisher), followed_at=AT, asked_at=5)
    followed = written(table, seen, FOLLOWED, now_ms=NOW_MS, max_follows=most)
    assert followed
    return followed


def expiry(client: Any) -> int | None:
    key = {"user_id": text("ben"), "publisher_id": text("ada")}
    item = client.get_item(TableName=FOLLOWING.name, Key=key)["Item"]
    return int(item["expires_at"]["N"]) if "expires_at" in item else None


# The row and the count


def test_without_a_row_nobody_ever_asked_for_anything(table: FollowsTable) -> None:
    never = table.get("ben", "ada")
    assert never == Follow(user_id="ben", publisher_id="ada")
    assert (never.is_active, never.version, never.asked_at) == (False, 0, 0)


def test_a_row_tells_all_of_its_follow_and_only_a_tombstone_expires(
    table: FollowsTable, client: Any
) -> None:
    followed = follow(table)
    begun = replace(NEW, state=FOLLOWED, version=1, changed_at=NOW_MS)
    assert followed == table.get("ben", "ada") == begun
    assert (count(client), expiry(client)) == (1, None)
    ended = written(table, replace(followed, asked_at=6), UNFOLLOWED, now_ms=NOW_MS)
    assert ended == table.get("ben", "ada")
    assert (ended.state, ended.version, ended.asked_at) == (UNFOLLOWED, 2, 6)
    assert (count(client), expiry(client)) == (0, ENDS)
    follow(table)
    assert (count(client), expiry(client)) == (1, None)


@pytest.mark.parametrize("has_row", [False, True])
def test_of_two_changes_of_the_same_row_one_applies_and_is_counted(
    table: FollowsTable, client: Any, has_row: bool
) -> None:
    if has_row:
        assert ask_again(table, NEW, now_ms=NOW_MS)
    seen = replace(table.get("ben", "ada"), followed_at=AT, asked_at=5)
    assert written(table, seen, FOLLOWED, now_ms=NOW_MS, max_follows=9)
    assert written(table, seen, FOLLOWED, now_ms=NOW_MS, max_follows=9) is None
    assert written(table, seen, UNFOLLOWED, now_ms=NOW_MS) is None
    assert ask_again(table, seen, now_ms=NOW_MS) is None
    assert (table.get("ben", "ada").state, count(client)) == (FOLLOWED, 1)


def test_a_change_that_lost_a_race_is_no_follow_too_many(table: FollowsTable, client: Any) -> None:
    """Neither the one for the last place, to itself, nor one against another transaction."""
    follow(table, most=1)
    assert written(table, NEW, FOLLOWED, now_ms=NOW_MS, max_follows=1) is None
    reasons = [{"Code": "None"}, {"Code": "TransactionConflict"}]
    plain, plain_call = client.exceptions.TransactionCanceledException, client.call
    said = {"Error": {"Code": plain.__name__}, "CancellationReasons": reasons}

    def refuse(operation: str, request: Any) -> Any:
        if operation == "TransactWriteItems":
            raise plain(said, operation)
        return plain_call(operation, request)

    client.call = refuse
    assert written(table, NEW, FOLLOWED, now_ms=NOW_MS, max_follows=1) is None


def test_a_change_of_a_follow_reads_the_marks_consistently_after_the_row(
    table: FollowsTable, client: Any
) -> None:
    plain, calls = client.call, []

    def call(operation: str, request: Any) -> Any:
        calls.append((operation, request.get("TableName"), request.get("ConsistentRead")))
        return plain(operation, request)

    client.call = call
    written(table, follow(table), UNFOLLOWED, now_ms=NOW_MS)
    change, marks = ("TransactWriteItems", None, None), ("GetItem", READERS.name, True)
    assert calls == [("GetItem", FOLLOWING.name, True), marks, change, marks, change]


def test_the_limit_is_reported_even_with_an_old_head(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 1.0)
    monkeypatch.setattr(clock, "now_ms", lambda: NOW_MS)
    heads, readers = HeadTable(client, PUBLISHERS.name), Readers(client, READERS.name)
    door = FollowsTable(client, FOLLOWING.name, readers, 30, KnownHead(heads))
    follow(door, "bea", most=1)
    heads.add("ada", heads.get(), followers=9)
    following.note(readers, "ben", readers.get("ben"), heads.get(), [])  # by a page
    with pytest.raises(TooManyFollows):
        follow(door, most=1)


# Edges


def test_an_edge_is_put_over_an_older_one_alone(edges: EdgesTable) -> None:
    assert edges.version("ada", "ben", level=2) is None
    for version, stored in [(2, 2), (1, 2), (2, 2), (3, 3)]:
        edges.put("ada", "ben", version=version, level=2)
        assert edges.version("ada", "ben", level=2) == stored
    assert edges.version("ada", "ben", level=1) is None


def test_an_unfollow_removes_the_edges_of_earlier_follows_alone(edges: EdgesTable) -> None:
    edges.remove("ada", "ben", version=9, level=0)  # there is none
    edges.put("ada", "ben", version=3, level=0)
    edges.remove("ada", "ben", version=2, level=0)
    assert edges.version("ada", "ben", level=0) == 3, "a newer follow put it"
    edges.remove("ada", "ben", version=4, level=0)
    assert edges.version("ada", "ben", level=0) is None
    edges.put("ada", "ben", version=3, level=0)
    edges.remove("ada", "ben", version=3, level=0)
    assert edges.version("ada", "ben", level=0) is None


def test_edges_are_read_within_their_range_page_by_page(edges: EdgesTable) -> None:
    users = [f"user-{number}" for number in range(30)]
    assert not edges.put_all([*(("ada", user, 1, 0) for user in users), ("bea", "eve", 1, 0)])
    every = sorted(ring.edge(user) for user in users)
    found = edges.edges("ada", RingRead(0, ring.START, ring.END), limit=4)
    assert [edge for part in found for edge in part] == every
    lo, hi = ring.position_of(every[10]), ring.position_of(every[20])
    found = edges.edges("ada", RingRead(0, lo, hi), limit=4)
    assert [edge for part in found for edge in part] == every[10:20]


def test_a_batch_that_fails_for_good_fails(edges: EdgesTable, client: Any) -> None:
    def refuse(operation: str, request: Any) -> Any:
        raise PermissionError

    client.call = refuse
    with pytest.raises(PermissionError):
        edges.put_all([("ada", "ben", 1, 0)])
