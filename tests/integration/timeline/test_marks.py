"""What a reader has unfollowed or muted is out of the timeline at once, and comes back whole."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from urllib3 import HTTPResponse

from fanfold import names
from fanfold.aws.items import text
from fanfold.aws.retries import STEP
from fanfold.timeline import marks
from fanfold.timeline.entries import Entry
from fanfold_client import Refused
from proof.simulation.world.function_modules import imported_anew
from tests.service import FailFirst, System, cancelled, error

DAY = 86_400


def seen(system: System, user: str = "bob", **query: str) -> list[str]:
    """The publishers of the user's first page, newest first, with content and without."""
    found = []
    for hydrate in ("true", "false"):
        answer = system.timeline(user, hydrate=hydrate, **query)
        assert answer.status == 200, answer.body
        found.append([entry["publisher_id"] for entry in answer.body["entries"]])
    assert found[0] == found[1]
    return found[0]


@pytest.fixture
def posts(system: System) -> System:
    """Bob follows Ada and Bea, and each has published a post."""
    for publisher in ("ada", "bea"):
        system.follow("bob", publisher)
        system.publish(f"of-{publisher}", user=publisher, body={"by": publisher})
        system.clock.advance(1)
    system.pump()
    assert seen(system) == ["bea", "ada"]
    return system


def test_an_unfollow_hides_at_once_and_a_follow_shows_again(posts: System) -> None:
    assert posts.unfollow("bob", "ada").status == 204
    assert seen(posts) == ["bea"]
    assert seen(posts, "bob", limit="1") == ["bea"]
    posts.pump()
    assert seen(posts) == ["bea"]
    assert posts.follow("bob", "ada").status == 200
    assert seen(posts) == ["bea", "ada"]


def test_a_feed_is_the_same_for_all_readers(posts: System) -> None:
    posts.unfollow("bob", "ada")
    posts.http("api/mute", user="bob", path={"publisher_id": "ada"})
    feed = posts.http("timeline/read_feed", user="bob", path={"publisher_id": "ada"})
    assert [entry["publisher_id"] for entry in feed.body["entries"]] == ["ada"]


def row(system: System, user: str = "bob") -> dict[str, Any]:
    items = {item["user_id"]["S"]: item for item in system.rows(names.READERS)}
    return items.get(user, {})


def weeks(system: System) -> list[str]:
    return sorted(name for name in row(system) if name.startswith("hidden_"))


def test_a_week_ends_with_the_retention_and_eight_days_and_the_next_change_removes_it(
    posts: System,
) -> None:
    posts.unfollow("bob", "ada")
    week = marks.week_of(posts.clock.ms)
    (attribute,) = weeks(posts)
    assert attribute == f"hidden_{week}"
    end = (week + 1) * 7 * DAY + (30 + 8) * DAY
    posts.clock.advance(end - posts.clock.ms / 1000 - 1)
    posts.unfollow("bob", "bea")
    assert len(weeks(posts)) == 2, "a second before"
    posts.clock.advance(1)
    posts.follow("bob", "bea")
    assert weeks(posts) == [], "one is over, the other is empty"


@contextmanager
def deployed(system: System, **changed: Any) -> Iterator[None]:
    """Inside this context, the functions are new ones, wired by themselves from these settings."""
    env = replace(system.settings, **changed).to_env()
    with patch.dict(os.environ, env), imported_anew():
        yield


@pytest.mark.parametrize("max_hidden", [500, 0])
def test_what_was_unfollowed_stays_hidden_where_the_retention_is_cut_and_raised_again(
    posts: System, monkeypatch: pytest.MonkeyPatch, max_hidden: int
) -> None:
    monkeypatch.setattr(marks, "MAX_HIDDEN", max_hidden)  # with none, rows of follows tell
    with deployed(posts, retention_days=7, longest_retention_days=30):
        posts.unfollow("bob", "ada")
        posts.clock.advance(25 * DAY)
        posts.follow("bob", "cleo")  # it would remove the marks of weeks that are over
    with deployed(posts, retention_days=30):
        assert seen(posts) == ["bea"]


@pytest.mark.parametrize("again", ["bea", "ada"])
def test_an_unfollow_above_the_limit_succeeds_and_pages_then_read_the_follows(
    posts: System, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    monkeypatch.setattr(marks, "MAX_HIDDEN", 1)
    for publisher in ("ada", "bea"):
        assert posts.unfollow("bob", publisher).status == 204
    until = posts.clock.ms // 1000 + 1 + 31 * DAY
    assert int(row(posts)["verify_until"]["N"]) == until
    assert len(weeks(posts)) == 1
    assert seen(posts) == []
    posts.follow("bob", again)
    assert seen(posts) == [again]
    posts.unfollow("bob", again)
    assert seen(posts) == []


def test_when_follows_cannot_be_read_there_is_no_page_instead_of_a_wrong_one(
    posts: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MAX_HIDDEN", 0)
    posts.unfollow("bob", "ada")
    timeline = posts.door("timeline")
    left = {names.FOLLOWING.name: {"Keys": [{"publisher_id": text("bea")}]}}
    plain, calls = timeline.stores.client.batch_get_item, []

    def fail(count: int) -> Any:
        def call(**request: Any) -> Any:
            if names.FOLLOWING.name in request["RequestItems"]:
                calls.append(request)
                if len(calls) <= count:
                    return {"Responses": {}, "UnprocessedKeys": left}
            return plain(**request)

        return call

    monkeypatch.setattr(timeline.stores.client, "batch_get_item", fail(STEP.attempts - 1))
    assert [e["publisher_id"] for e in posts.timeline("bob").body["entries"]] == ["bea"]
    calls.clear()
    monkeypatch.setattr(timeline.stores.client, "batch_get_item", fail(STEP.attempts))
    assert (posts.timeline("bob").status, posts.timeline("bob").status) == (503, 200)


def test_the_row_is_read_consistently_and_once_a_page_and_there_is_no_page_without_it(
    posts: System, fail_first: FailFirst
) -> None:
    throttled = error("ProvisionedThroughputExceededException")
    requests = fail_first(posts.door("timeline").stores.client, "get_item", [throttled])
    answer = posts.timeline("bob")
    assert (answer.status, answer.slug) == (503, "try-later")
    posts.timeline("bob", limit="1", hydrate="false")
    assert [request["ConsistentRead"] for request in requests] == [True] * 2
    posts.timeline("bob", to="2020-01-01")
    assert len(requests) == 2, "a page that reads no entries reads no reader"


# Mutes


def mute(system: System, publisher: str, verb: str = "mute", *, seconds_ago: int = 0) -> int:
    path = {"publisher_id": publisher}
    asked = system.http(f"api/{verb}", user="bob", path=path, seconds_ago=seconds_ago)
    return int(asked.status)


def muted(system: System, **query: str) -> list[str]:
    body = system.http("api/list_muted", user="bob", query=query).body
    return [each["publisher_id"] for each in body["muted"]]


def test_a_mute_hides_at_once_and_an_unmute_shows_again_and_both_are_idempotent(
    posts: System,
) -> None:
    assert muted(posts) == []
    for _ in range(2):
        assert mute(posts, "ada") == 204
        assert (seen(posts), muted(posts)) == (["bea"], ["ada"])
    for _ in range(2):
        assert mute(posts, "ada", "unmute") == 204
        assert (seen(posts), muted(posts)) == (["bea", "ada"], [])
    assert row(posts, "bob#muted").keys() == {"user_id", "asked_at"}


@pytest.mark.parametrize("verb", ["mute", "unmute"])
def test_clients_do_not_repeat_a_mute_that_was_overtaken(posts: System, verb: str) -> None:
    """Sent again, it would be the latest, and undo what was answered meanwhile."""
    for _ in range(2):  # also to what has changed nothing
        mute(posts, "ada", "unmute" if verb == "mute" else "mute")
        posts.clock.advance(60)
    path = {"publisher_id": "ada"}
    answer = posts.http(f"api/{verb}", user="bob", path=path, seconds_ago=62)
    body = json.dumps(answer.body).encode()
    refused = Refused.of(HTTPResponse(status=answer.status), body)
    assert (refused.status, refused.type, refused.may_pass) == (409, "mute-overtaken", False)


def test_a_request_that_is_a_little_late_leaves_the_time_of_the_last_one(posts: System) -> None:
    mute(posts, "ada")
    mute(posts, "bea", seconds_ago=1)
    assert mute(posts, "ada", "unmute", seconds_ago=2) == 409


def test_more_mutes_than_the_limit_are_refused_and_a_mute_that_is_there_is_not(
    posts: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(marks, "MAX_MUTED", 2)
    assert [mute(posts, each) for each in ("ada", "cleo", "bea", "ada")] == [204, 204, 409, 204]
    answer = posts.http("api/mute", user="bob", path={"publisher_id": "bea"})
    assert (answer.slug, seen(posts)) == ("too-many-mutes", ["bea"])
    mute(posts, "cleo", "unmute")
    assert mute(posts, "bea") == 204
    assert (muted(posts), seen(posts)) == (["ada", "bea"], [])


def test_mutes_are_listed_by_name_in_pages(posts: System) -> None:
    for publisher in ("cleo", "ada", "bea"):
        mute(posts, publisher)
    first = posts.http("api/list_muted", user="bob", query={"limit": "2"}).body
    assert [each["publisher_id"] for each in first["muted"]] == ["ada", "bea"]
    assert muted(posts, cursor=first["next"]) == ["cleo"]
    assert posts.http("api/list_muted", user="bob", query={"limit": "3"}).body["next"] is None
    assert posts.http("api/list_muted", user="bob", query={"cursor": "x"}).status == 400


@pytest.mark.parametrize("failures", [1, 5, 6])
def test_a_mute_in_conflict_is_tried_again(
    posts: System, fail_first: FailFirst, failures: int
) -> None:
    conflict = cancelled("None", "TransactionConflict")
    fail_first(posts.door("api").stores.client, "transact_write_items", [conflict] * failures)
    assert mute(posts, "ada") == (204 if failures < 6 else 429)
    assert seen(posts) == (["bea"] if failures < 6 else ["bea", "ada"])


def test_a_mark_hides_what_comes_late_for_as_long_as_the_longest_retention(posts: System) -> None:
    with deployed(posts, retention_days=7, longest_retention_days=30):
        posts.unfollow("bob", "ada")
        posts.clock.advance(25 * DAY)
        posts.publish(body={})
        assert not posts.timelines.push(Entry(posts.post().sort_key, "ada"), ["bob"])
        assert seen(posts) == []
        posts.follow("bob", "ada")
        assert seen(posts) == ["ada"]
