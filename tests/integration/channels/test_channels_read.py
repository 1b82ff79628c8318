"""Timelines of which some entries lie in channels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from fanfold import cursor, names, times
from fanfold.aws.items import number, text
from fanfold.channels import known_head, union
from fanfold.channels.head import partition_of
from fanfold.channels.known_head import HEAD_SECONDS
from fanfold.cursor import Cursor
from fanfold.ids import sort_key
from fanfold.timeline import marks
from fanfold.timeline.entries import Entry
from fanfold.timeline.posts import Post
from tests.service import AT_MS, Answer, Json, System, around_calls, error

# No publisher of these tests has so many followers: a channel is given by hand.
BY_HAND = 1_000_000
EXPIRES_AT = 1_900_000_000


@pytest.fixture
def channel_threshold() -> int:
    return BY_HAND


def entry(system: System, ref_id: str, ago: float, publisher: str = "ada") -> Entry:
    """A new post of so many seconds ago, and its entry, which is nowhere yet."""
    published_at = times.to_text(AT_MS - round(1000 * ago))
    post = Post(
        ref_id=ref_id,
        publisher_id=publisher,
        published_at=published_at,
        accepted_at=published_at,
        expires_at=EXPIRES_AT,
        body="{}",
    )
    system.posts.add(post, now=AT_MS // 1000)
    return Entry(sort_key(published_at, ref_id), publisher, EXPIRES_AT)


def put(system: System, ref_id: str, ago: float, publisher: str = "ada") -> Entry:
    """A post in its publisher's channel."""
    added = entry(system, ref_id, ago, publisher)
    system.put_into_channel(added)
    return added


def push(
    system: System, ref_id: str, ago: float, publisher: str = "ada", user: str = "bob"
) -> None:
    """A post in a user's own timeline."""
    assert not system.timelines.push(entry(system, ref_id, ago, publisher), [user])


def shown(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [each["ref_id"] for each in answer.body["entries"]]


def read(system: System, user: str = "bob", **query: str) -> list[str]:
    return shown(system.timeline(user, **query))


def later(system: System) -> None:
    """Until every container reads the head again."""
    system.clock.advance(HEAD_SECONDS)


@pytest.fixture
def one(system: System) -> None:
    """Bob follows Ada, in whose channel is one post; no page has noted that."""
    system.follow("bob")
    system.promote("ada")
    put(system, "one", 1)


@contextmanager
def counted() -> Iterator[list[tuple[str, Json]]]:
    """The calls made inside this context."""
    calls: list[tuple[str, Json]] = []

    def note(operation: str, request: Json, make: Callable[[], Any]) -> Any:
        calls.append((operation, request))
        return make()

    with around_calls(note):
        yield calls


def of_channels(calls: Sequence[tuple[str, Json]]) -> list[str]:
    """Whose channels were queried, always consistently."""
    owners = []
    for operation, request in calls:
        owner = request.get("ExpressionAttributeValues", {}).get(":owner", {}).get("S", "")
        if operation == "Query" and owner.startswith("#"):
            assert request["ConsistentRead"]
            owners.append(owner)
    return sorted(owners)


def row(system: System, user: str = "bob") -> Json:
    rows = [each for each in system.rows(names.READERS) if each["user_id"] == text(user)]
    return rows[0] if rows else {}


# What is shown


def test_a_channel_is_read_by_those_who_follow_its_publisher_and_nobody_else(
    system: System,
) -> None:
    system.promote("ada", "bea")
    system.follow("bob", "ada")
    system.follow("cat", "bea")
    put(system, "one", 2)
    push(system, "two", 1, "carl")
    assert read(system, "bob") == ["two", "one"]
    assert read(system, "cat") == []
    assert read(system, "dan") == []


def test_retracted_edited_muted_and_unread_posts_are_the_same_in_a_channel(system: System) -> None:
    system.promote("ada", "bea")
    system.follow("bob", "ada")
    system.follow("bob", "bea")
    put(system, "gone", 4)
    put(system, "new", 3)
    put(system, "loud", 2, "bea")
    push(system, "own", 1, "carl")
    system.http("api/retract_post", user="ada", path={"ref_id": "gone"})
    system.http("api/edit_post", user="ada", path={"ref_id": "new"}, body={"body": {"n": 7}})
    unread = system.http("timeline/count_unread", user="bob")
    assert unread.body == {"unread": 4, "more": False}  # posts are not looked at
    system.http("api/mute", user="bob", path={"publisher_id": "bea"})
    page = system.timeline("bob")
    assert shown(page) == ["own", "new"]
    assert page.body["entries"][1]["body"] == {"n": 7}
    assert system.http("timeline/count_unread", user="bob").body["unread"] == 3
    system.http("api/unmute", user="bob", path={"publisher_id": "bea"})
    assert read(system) == ["own", "loud", "new"]


# Windows


def test_a_warm_page_queries_no_channel_and_reads_the_head_once_a_second(system: System) -> None:
    system.promote("ada", "bea")
    system.follow("bob", "ada")
    system.follow("bob", "bea")
    put(system, "one", 1)
    with counted() as cold:
        assert read(system) == ["one"]
    assert of_channels(cold) == ["#ada", "#bea"]
    with counted() as warm:
        assert read(system) == ["one"]
    assert [operation for operation, _ in warm] == ["Query", "GetItem"]
    later(system)
    with counted() as warm:
        assert read(system, "bob") == ["one"]
    assert [operation for operation, _ in warm] == ["Query", "BatchGetItem"]
    put(system, "two", 0)
    later(system)
    with counted() as after_a_post:
        assert read(system) == ["two", "one"]
    assert of_channels(after_a_post) == []
    system.door("timeline").channels.forget()
    with counted() as cold_again:
        assert read(system) == ["two", "one"]
    assert of_channels(cold_again) == ["#ada", "#bea"]


def test_far_below_a_cold_container_reads_what_the_page_needs_and_no_windows(
    system: System,
) -> None:
    system.promote("ada")
    system.follow("bob")
    put(system, "one", 1)
    put(system, "two", 2)
    before = cursor.encode(Cursor.at(times.to_text(AT_MS)))
    for query in ({"before": before}, {"to": times.to_text(AT_MS)}):
        system.door("timeline").channels.forget()
        with counted() as calls:
            assert read(system, **query, limit="5") == ["one", "two"]
        assert of_channels(calls) == ["#ada"]
        assert {call[1]["Limit"] for call in calls if call[0] == "Query"} == {6}


def test_more_channel_queries_than_a_page_may_make_leave_it_partial_and_lose_nothing(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(union, "WINDOW", 3)
    monkeypatch.setattr(union, "MAX_QUERIES", 4)
    monkeypatch.setattr(union, "FEW", 1)
    system.promote("ada", "bea")
    for publisher in ("ada", "bea"):
        system.follow("bob", publisher)
        for at in range(40):
            put(system, f"{publisher}-{at}", at + 0.1 * len(publisher), publisher)
        system.http("api/mute", user="bob", path={"publisher_id": publisher})
    push(system, "own", 39.5, "carl")
    found, query, partial = [], {"limit": "5"}, 0
    while True:
        with counted() as calls:
            page = system.timeline("bob", **query)
        queries, is_partial = len(of_channels(calls)), "partial" in page.body
        assert queries == 4 if is_partial else queries <= 4
        found += shown(page)
        partial += is_partial
        if page.body["next"] is None:
            break
        query["before"] = page.body["next"]
    assert found == ["own"]
    assert partial


def test_a_second_look_has_queries_of_its_own(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(union, "WINDOW", 3)
    monkeypatch.setattr(union, "MAX_QUERIES", 4)
    system.promote("ada", "bea")
    for publisher in ("ada", "bea"):
        system.follow("bob", publisher)
        for at in range(10):
            put(system, f"{publisher}-{at}", at + 0.1 * len(publisher), publisher)
    push(system, "own", 20, "carl")
    page = system.timeline("bob", limit="30").body
    (own,) = [each for each in system.rows(names.TIMELINES) if each["user_id"] == text("bob")]
    key = {name: own[name] for name in ("user_id", "sort_key")}
    system.dynamodb.delete_item(TableName=names.TIMELINES.name, Key=key)  # and it is missed
    system.door("timeline").channels.forget()
    with counted() as calls:
        assert read(system, after=page["previous"], limit="5") == []
    queries = [
        request["ExpressionAttributeValues"][":owner"]
        for _, request in calls
        if "Key" not in request and "Limit" in request
    ]
    first, second = (at for at, owner in enumerate(queries) if owner == text("bob"))
    looks = queries[first:second], queries[second:]
    assert [sorted(each["S"] for each in look if each["S"] != "bob") for look in looks] == [
        ["#ada", "#ada", "#bea", "#bea"],
        ["#ada", "#bea"],
    ]


# The memo


def test_the_follows_of_a_new_channel_are_read_once_and_noted(system: System) -> None:
    system.follow("bob", "ada")
    system.follow("bob", "carl")
    head = system.promote("ada", "bea")
    put(system, "one", 1)
    with counted() as calls:
        assert read(system) == ["one"]
    assert [operation for operation, _ in calls] == [
        "Query", "BatchGetItem", "BatchGetItem", "UpdateItem", "Query", "BatchGetItem",
    ]  # fmt: skip
    assert row(system)["channels"] == {"BS": [marks.hash_of("ada")]}
    assert row(system)["channels_seen"] == number(head.version)
    with counted() as calls:
        assert read(system) == ["one"]
    assert not {"BatchGetItem", "UpdateItem"} & {operation for operation, _ in calls}


def test_a_reader_without_a_row_reads_no_follows_and_gets_no_row(system: System) -> None:
    system.promote("ada")
    put(system, "one", 1)
    with counted() as calls:
        assert read(system, "nobody") == []
    assert [operation for operation, _ in calls] == ["Query", "BatchGetItem"]
    assert row(system, "nobody") == {}


@pytest.mark.usefixtures("one")
def test_a_memo_that_cannot_be_written_is_written_by_the_next_page(
    system: System, fail_first: Callable[[Any, str, Sequence[Exception]], list[Any]]
) -> None:
    throttled = error("ProvisionedThroughputExceededException")
    fail_first(system.dynamodb, "update_item", [throttled])
    assert read(system) == ["one"]
    assert "channels" not in row(system)
    assert read(system) == ["one"]
    assert "channels" in row(system)


# Faults


@pytest.mark.usefixtures("one")
def test_a_channel_that_cannot_be_read_is_503_and_never_a_page_with_a_hole(system: System) -> None:

    def throttle(_operation: str, request: Json, make: Callable[[], Any]) -> Any:
        if partition_of("ada") in str(request.get("ExpressionAttributeValues")):
            raise error("ProvisionedThroughputExceededException")
        return make()

    with around_calls(throttle):
        answer = system.timeline("bob")
    assert (answer.status, answer.slug) == (503, "try-later")
    assert int(answer.headers["retry-after"]) > 0
    assert read(system) == ["one"]


def leave(system: System, monkeypatch: pytest.MonkeyPatch, table: str) -> list[Json]:
    """Have BatchGetItem leave the rows of a table unprocessed, as while they are throttled.

    Returns its requests for them, as they come.
    """
    plain, asked = system.dynamodb.batch_get_item, []

    def read(RequestItems: Json) -> Any:  # noqa: N803
        asked.extend([RequestItems] if table in RequestItems else [])
        rest = {name: each for name, each in RequestItems.items() if name != table}
        answer: Json = dict(plain(RequestItems=rest)) if rest else {"Responses": {}}
        left = {name: each for name, each in RequestItems.items() if name == table}
        return {**answer, "UnprocessedKeys": left}

    monkeypatch.setattr(system.dynamodb, "batch_get_item", read)
    return asked


@pytest.mark.usefixtures("one")
def test_a_throttled_head_is_the_last_one_known_for_ten_seconds_and_not_asked_for_by_each_page(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert read(system) == ["one"]
    put(system, "two", 0)
    with monkeypatch.context() as hot:
        asked = leave(system, hot, names.PUBLISHERS.name)
        system.clock.advance(known_head.MOST_SECONDS - 1)
        assert [read(system) for _ in range(3)] == [["one"]] * 3
        assert len(asked) == 1
        system.clock.advance(1)
        answer = system.timeline("bob")
        assert (answer.status, answer.slug) == (503, "try-later")
    assert read(system) == ["two", "one"]


@pytest.mark.parametrize("table", [names.PUBLISHERS.name, names.FOLLOWING.name])
def test_a_cold_container_shows_no_page_without_the_head_or_the_follows_of_a_new_channel(
    system: System, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    system.follow("bob")
    system.promote("ada")
    leave(system, monkeypatch, table)
    answer = system.timeline("bob")
    assert (answer.status, answer.slug) == (503, "try-later")


@pytest.mark.usefixtures("one")
def test_a_readers_row_throttled_in_a_batch_with_the_head_is_read_alone(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(system, monkeypatch, names.READERS.name)
    assert read(system) == ["one"]


# A stage that gives no channels


def heads_of(door: Any) -> known_head.KnownHead:
    found: known_head.KnownHead = getattr(door, "heads", None) or door.channels.head
    return found


@pytest.mark.usefixtures("one")
def test_a_stage_that_gives_no_channels_shows_what_lies_in_them(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a deploy that has forgotten the threshold."""
    for door in ("timeline", "plan", "api", "relate"):
        heads = heads_of(system.door(door))
        monkeypatch.setattr(heads, "gives", False)
        heads.forget()
    assert read(system) == ["one"]
    put(system, "two", 0)
    later(system)
    assert read(system) == ["two", "one"]


def test_a_stage_without_channels_reads_the_head_once_a_minute_and_knows_it_for_one_more(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.follow("bob")
    monkeypatch.setattr(heads_of(system.door("timeline")), "gives", False)
    for seconds, reads in ((0, True), (1, False), (known_head.IDLE_SECONDS - 2, False), (2, True)):
        system.clock.advance(seconds)
        with counted() as calls:
            assert read(system) == []
        assert ("BatchGetItem" in [operation for operation, _ in calls]) is reads
    asked = leave(system, monkeypatch, names.PUBLISHERS.name)
    for seconds in (known_head.IDLE_SECONDS, 0, known_head.IDLE_SECONDS - 1):
        system.clock.advance(seconds)
        assert read(system) == []
    assert len(asked) == 2
    system.clock.advance(1)
    answer = system.timeline("bob")
    assert (answer.status, answer.slug) == (503, "try-later")


def test_a_channel_that_is_back_after_a_mute_or_an_unfollow_repeats_nothing(system: System) -> None:
    system.promote("ada")
    system.follow("bob")
    put(system, "one", 1)
    push(system, "own", 2, "carl")
    previous = system.timeline("bob").body["previous"]
    for route in ("api/mute", "api/unmute", "api/unfollow", "api/follow"):
        system.http(route, user="bob", path={"publisher_id": "ada"})
        page = system.timeline("bob", after=previous)
        assert shown(page) == []
        previous = page.body["previous"]
    put(system, "two", 0)
    later(system)
    assert read(system, after=previous) == ["two"]
