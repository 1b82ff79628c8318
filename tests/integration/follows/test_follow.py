"""Following and unfollowing: the row decides, and the edges agree with it in the end."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import replace
from threading import Barrier
from typing import Any

import pytest

from fanfold import names
from fanfold.aws.items import get_number
from fanfold.aws.retries import STEP
from fanfold.errors import TryLater
from fanfold.follows.bulk_follow import BulkFollowing
from fanfold.follows.follow import Following
from fanfold.follows.follows_table import row_key
from fanfold.follows.relation import FOLLOWED, UNFOLLOWED, Follow
from functions import plan
from functions._intake import FollowAdded, PostDeleted
from functions._worker import Received
from tests.service import AT, AT_MS, Answer, FailFirst, Json, System, cancelled, error
from tests.stores import written

DAY = 86_400
# As they are deployed; on moto, the fixture does without.
MESSAGES = plan.MESSAGES


def row(system: System, user: str = "bob", publisher: str = "ada") -> Follow:
    return system.follows.get(user, publisher)


def count_of(system: System, user: str = "bob") -> int:
    """The user's count of follows in the readers table."""
    items = {item["user_id"]["S"]: item for item in system.rows(names.READERS)}
    return get_number(items.get(user, {}), "follows")


@pytest.fixture
def following(system: System) -> Following:
    """The use case as the HTTP door has it."""
    found: Following = system.door("api").following
    return found


@pytest.fixture
def limited(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Doors that let a user follow three publishers; bob follows three."""
    for door in map(system.door, ("api", "plan")):
        monkeypatch.setattr(door, "following", replace(door.following, max_follows=3))
    for number in range(3):
        assert system.follow("bob", f"publisher-{number}").status == 200


def test_relate_waits_until_what_changed_the_row_has_timed_out_and_its_writes_have_landed(
    system: System,
) -> None:
    delays = [system.door(name).following.reconcile_after_seconds for name in ("api", "plan")]
    assert delays == [25, 75]


def test_a_follow_has_a_row_and_an_edge_and_is_reconciled_again_later(system: System) -> None:
    answer = system.http("api/follow")
    assert (answer.status, answer.body) == (200, {"publisher_id": "ada", "followed_at": AT})
    assert row(system) == Follow(
        user_id="bob",
        publisher_id="ada",
        state="followed",
        version=1,
        followed_at=AT,
        asked_at=AT_MS,
        changed_at=AT_MS,
    )
    assert system.edges() == ["bob"]
    assert count_of(system) == 1
    pair = {"version": 1, "user_id": "bob", "publisher_id": "ada"}
    assert system.bodies("Relation") == [{**pair, "type": "relation.backfill"}]
    system.clock.advance(names.API.settled_seconds - 1)
    assert system.receive("Relation") == [], "delayed until the door's writes have landed"
    system.clock.advance(1)
    assert system.bodies("Relation") == [{**pair, "type": "relation.settle"}]


@pytest.mark.parametrize("was_followed", [True, False])
def test_an_unfollow_leaves_a_tombstone_for_a_while_until_the_next_follow(
    system: System, was_followed: bool
) -> None:
    if was_followed:
        system.follow("bob")
    assert system.http("api/unfollow").status == 204
    ended = 1 + was_followed
    assert (row(system).state, row(system).version) == ("unfollowed", ended)
    (item,) = system.rows(names.FOLLOWING)
    assert int(item["expires_at"]["N"]) == system.clock.ms // 1000 + 45 * DAY
    assert (system.edges(), count_of(system)) == ([], 0)
    before = system.dump()
    assert system.unfollow("bob").status == 204
    assert system.dump() == before
    system.clock.advance(60)
    assert system.follow("bob").body["followed_at"] == "2026-11-20T18:01:00.123Z"
    (item,) = system.rows(names.FOLLOWING)
    assert "expires_at" not in item
    (edge,) = system.rows(names.FOLLOWERS)
    assert edge["version"] == {"N": f"{ended + 1}"}
    assert (row(system).version, count_of(system)) == (ended + 1, 1)


def test_the_count_of_follows_is_never_below_zero_after_a_restore(system: System) -> None:
    system.follow("bob")
    readers = system.follows.readers
    readers.client.delete_item(TableName=readers.table, Key={"user_id": {"S": "bob"}})
    system.unfollow("bob")
    assert readers.get("bob").follows == -1
    assert system.http("api/list_following", user="bob").body["count"] == 0


@pytest.mark.usefixtures("limited")
def test_the_limit_of_follows_is_exact_for_each_user_and_an_unfollow_makes_room(
    system: System,
) -> None:
    answer = system.follow("bob", "publisher-3")
    assert (answer.status, answer.slug) == (409, "too-many-follows")
    assert system.follows.get("bob", "publisher-3").version == 0
    assert system.edges("publisher-3") == []
    assert count_of(system) == 3
    assert system.follow("carol", "publisher-0").status == 200
    assert system.follow("bob", "publisher-0").status == 200, "not a new follow"
    system.unfollow("bob", "publisher-0")
    assert system.follow("bob", "publisher-3").status == 200
    assert count_of(system) == 3


TOO_MANY = (
    "'bob' may follow at most 3 publishers and would then follow more; "
    "unfollow one, then follow again."
)


@pytest.mark.usefixtures("limited")
def test_a_follow_message_beyond_the_limit_is_a_dead_letter_that_says_what_to_do(
    system: System,
) -> None:
    added = follow_event(system, "added")
    assert system.take(copy.deepcopy(added)) == []
    ((body, reason),) = system.rejected("Publish")
    assert (body, reason) == (added["Records"][0]["body"], TOO_MANY)
    assert system.follow("bob").body["detail"] == TOO_MANY
    assert (row(system).version, count_of(system)) == (0, 3)
    system.unfollow("bob", "publisher-0")
    assert system.take(added) == []
    assert (row(system).is_active, count_of(system)) == (True, 3)


# Faults


def test_a_change_in_conflict_with_a_transaction_is_repeated(
    system: System, fail_first: FailFirst
) -> None:
    cancelled_twice = [cancelled("None", "TransactionConflict")] * 2
    calls = fail_first(system.dynamodb, "transact_write_items", cancelled_twice)
    assert system.follow("bob").status == 200
    assert len(calls) == 3
    assert count_of(system) == 1
    system.clock.advance(5)
    response: Any = error("TransactionConflictException").response
    conflict = system.dynamodb.exceptions.TransactionConflictException(response, "UpdateItem")
    calls = fail_first(system.dynamodb, "update_item", [conflict])
    assert system.follow("bob").status == 200
    assert len(calls) == 2
    assert row(system).version == 2


def test_a_throttled_transaction_is_answered_with_try_later_and_an_invalid_one_with_500(
    system: System, fail_first: FailFirst
) -> None:
    for codes, status, slug in (
        (("None", "ProvisionedThroughputExceeded"), 503, "try-later"),
        (("ThrottlingError", "TransactionConflict"), 503, "try-later"),
        (("None", "ValidationError"), 500, "internal"),
    ):
        fail_first(system.dynamodb, "transact_write_items", [cancelled(*codes)])
        answer = system.follow("bob")
        assert (answer.status, answer.slug) == (status, slug)


# The list of follows


def follow_many(system: System, count: int, user: str = "bob") -> list[str]:
    publishers = [f"publisher-{number:03d}" for number in range(count)]
    for publisher in publishers:
        fresh = Follow(
            user_id=user, publisher_id=publisher, state="unfollowed", version=0, followed_at=AT
        )
        assert written(system.follows, fresh, FOLLOWED, now_ms=AT_MS, max_follows=5000)
    return publishers


def page(system: System, user: str = "bob", **query: str) -> Answer:
    return system.http("api/list_following", user=user, query=query)


def walk(system: System, **query: str) -> list[list[str]]:
    """All pages."""
    pages: list[list[str]] = []
    cursor: dict[str, str] = {}
    for _ in range(100):
        answer = page(system, **query, **cursor)
        assert answer.status == 200
        pages.append([each["publisher_id"] for each in answer.body["following"]])
        if answer.body["next"] is None:
            return pages
        cursor = {"cursor": answer.body["next"]}
    raise AssertionError("the pages do not end")


@pytest.mark.parametrize(
    ("count", "ended", "limit", "sizes"),
    [
        (0, [], 4, [0]),
        (4, [], 4, [4]),
        (5, [], 4, [4, 1]),
        (24, [*range(1, 10), *range(12, 20), 23], 3, [3, 3]),
        (5, range(5), 2, [0]),
    ],
)
def test_pages_leave_out_tombstones_and_are_full_and_end_exactly(
    system: System, count: int, ended: Sequence[int], limit: int, sizes: list[int]
) -> None:
    publishers = follow_many(system, count)
    for number in ended:
        assert written(
            system.follows, row(system, "bob", publishers[number]), UNFOLLOWED, now_ms=AT_MS
        )
    pages = walk(system, limit=str(limit))
    assert [len(each) for each in pages] == sizes
    active = [each for number, each in enumerate(publishers) if number not in ended]
    assert list(itertools.chain(*pages)) == active


# Many follows at once


@pytest.fixture
def bulk(following: Following) -> BulkFollowing:
    return BulkFollowing(following)


def test_many_follows_at_once_have_rows_edges_and_an_exact_count(
    system: System, bulk: BulkFollowing
) -> None:
    wanted = [f"publisher-{number}" for number in range(120)]
    system.follow("bob", "publisher-5")
    system.follow("bob", "publisher-7")
    system.unfollow("bob", "publisher-7")
    system.pump()
    assert replace(bulk, again=True).follow_all("bob", [*wanted, *wanted]) == 119
    assert count_of(system) == 120
    assert all(row(system, "bob", publisher).is_active for publisher in wanted)
    assert all(system.edges(publisher) == ["bob"] for publisher in wanted)
    before = system.dump()
    assert bulk.follow_all("bob", wanted) == 0
    assert system.dump() == before


def test_what_a_repair_has_ended_is_followed_again_by_an_import(
    system: System, bulk: BulkFollowing
) -> None:
    """Its tombstone tells of no wish of the user, as where the table of follows was lost."""
    tombstone: Any = {"state": {"S": "unfollowed"}, "version": {"N": "2"}}
    key = row_key("bob", "ada")
    system.dynamodb.put_item(TableName="Following", Item={**key, **tombstone})
    assert bulk.follow_all("bob", ["ada"]) == 1
    assert system.edges() == ["bob"]


def test_a_follow_is_in_effect_with_its_row_and_an_edge_as_new_at_whatever_level(
    system: System, bulk: BulkFollowing
) -> None:
    for level in range(3):
        system.publishers.raise_to("ada", level, now_ms=AT_MS)
        bulk.following.edges.forget()
        bulk.follow_all(f"user-{level}", ["ada", "grace"])
    there = {(f"user-{level}", each) for level in range(3) for each in ("ada", "grace")}
    for publisher in ("bare", "ended", "newer"):
        assert system.follow("bob", publisher).status == 200
    system.edges_table.remove("bare", "bob", version=1, level=0)
    for publisher in ("ended", "newer"):  # and their edges have not gone yet
        assert written(system.follows, row(system, "bob", publisher), UNFOLLOWED, now_ms=AT_MS)
    assert written(
        system.follows, row(system, "bob", "newer"), FOLLOWED, now_ms=AT_MS, max_follows=9
    )
    system.edges_table.put("orphan", "bob", version=1, level=0)
    others = {("bob", each) for each in ("bare", "ended", "newer", "orphan", "never")}
    assert bulk.in_effect(sorted(there | others)) == there
    assert bulk.in_effect([]) == set()


def test_unprocessed_edges_are_written_again_or_raise_try_later(
    system: System, following: Following, fail_first: FailFirst, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = system.edge_client.batch_write_item

    def write_one(*, RequestItems: Any) -> Any:  # noqa: N803 - boto3's name
        ((table, puts),) = RequestItems.items()
        plain(RequestItems={table: puts[:1]})
        return {"UnprocessedItems": {table: puts[1:]}} if puts[1:] else {}

    monkeypatch.setattr(system.edge_client, "batch_write_item", write_one)
    users = [f"user-{number}" for number in range(8)]
    following.edges.put_all(("ada", user, 1) for user in users)
    assert system.edges() == users
    fail_first(system.edge_client, "put_item", [error("ThrottlingException")] * STEP.attempts)
    with pytest.raises(TryLater):
        following.edges.put_all(("grace", user, 1) for user in users)


def test_every_page_says_how_many_one_follows(system: System, fail_first: FailFirst) -> None:
    publishers = follow_many(system, 5)
    assert system.unfollow("bob", publishers[1]).status == 204
    first = page(system, limit="3").body
    second = page(system, limit="3", cursor=first["next"]).body
    assert [len(each["following"]) for each in (first, second)] == [3, 1]
    assert first["count"] == second["count"] == 4
    calls = fail_first(system.dynamodb, "get_item", [])
    page(system)
    assert [call["ConsistentRead"] for call in calls] == [True]


def test_a_list_with_thousands_of_tombstones_has_short_pages(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold.follows.follow.PAGE", 3)
    monkeypatch.setattr("fanfold.follows.follow.MAX_PAGES", 2)
    publishers = follow_many(system, 20)
    for publisher in publishers[1:19]:
        written(system.follows, row(system, "bob", publisher), UNFOLLOWED, now_ms=AT_MS)
    pages = walk(system, limit="1")
    assert list(itertools.chain(*pages)) == [publishers[0], publishers[19]]
    assert [] in pages, "a page may be empty and not the last"


def follow_event(system: System, kind: str, *, user: str = "bob", times_received: int = 1) -> Json:
    """A message of the publish queue as SQS hands it out, sent at the clock's time."""
    body = {"version": 1, "type": f"follow.{kind}", "user_id": user, "publisher_id": "ada"}
    return {"Records": [system.record("Publish", body, times_received=times_received)]}


def test_a_batch_is_taken_in_parallel_except_for_the_follows_of_one_user(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [
        {"version": 1, "type": "follow.added", "user_id": user, "publisher_id": publisher}
        for user, publisher in (("bob", "ada"), ("bob", "grace"), ("carol", "ada"))
    ]
    both, begun = Barrier(2, timeout=5), []

    def take(received: Received[FollowAdded]) -> None:
        event = received.message
        begun.append((event.user_id, event.publisher_id))
        if event.publisher_id == "ada":
            both.wait()  # for the other user's

    door = system.door("plan")
    monkeypatch.setattr(door, "MESSAGES", MESSAGES)
    monkeypatch.setattr(door, "take", take)
    records = [system.record("Publish", body) for body in bodies]
    assert system.take({"Records": records}) == []
    assert begun.index(("bob", "grace")) == 2


def test_messages_about_one_post_are_taken_in_turn(system: System) -> None:
    assert system.door("plan")._turn(PostDeleted(1, "post.deleted", "ada", "post-1")) == "post-1"
