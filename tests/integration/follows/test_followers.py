"""A publisher's followers over HTTP: who they are, and how many."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanfold import names
from fanfold.follows import ring
from fanfold.follows.publisher.followers import COUNT_SECONDS
from tests.service import Answer, FailFirst, System, error


def listed(system: System, *, user: str = "ada", **query: str) -> Answer:
    return system.http("api/list_followers", user=user, query=query)


def counted(system: System, *, user: str = "ada") -> Answer:
    return system.http("api/count_followers", user=user)


def users(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [each["user_id"] for each in answer.body["followers"]]


def every(system: System, **query: str) -> list[str]:
    """All followers, page by page."""
    found: list[str] = []
    for _ in range(50):
        answer = listed(system, **query)
        found += users(answer)
        if answer.body["next"] is None:
            return found
        query["cursor"] = answer.body["next"]
    raise AssertionError("The pages do not end.")


def open_to_users(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deploy the API with another switch."""
    here = system.door("api").followers
    monkeypatch.setattr(system.door("api"), "followers", replace(here, readers=names.USERS))


def test_an_answered_follow_is_listed_and_an_answered_unfollow_is_not(system: System) -> None:
    assert (users(listed(system)), listed(system).body["next"]) == ([], None)
    for user in ("bob", "eve", "ada"):
        assert system.follow(user).status == 200
    assert users(listed(system)) == sorted(["bob", "eve", "ada"], key=ring.edge)
    assert system.unfollow("eve").status == 204
    assert set(users(listed(system))) == {"bob", "ada"}


@pytest.mark.parametrize("limit", ["1", "2", "7", "100"])
def test_followers_at_several_levels_are_listed_once_each_in_the_order_of_their_hashes(
    system: System, limit: str
) -> None:
    followers = system.give_followers(9)
    system.publishers.raise_to("ada", 3, now_ms=system.clock.ms)
    for user in [*followers[:4], "bob", "eve"]:  # four lie at two levels
        assert not system.edges_table.put_all([("ada", user, 2, 3)])
    expected = sorted([*followers, "bob", "eve"], key=ring.edge)
    assert every(system, limit=limit) == expected
    assert counted(system).body == {"followers": 11, "exact": True}


def test_few_followers_in_many_shards_are_all_found_behind_short_pages(system: System) -> None:
    system.publishers.raise_to("ada", 6, now_ms=system.clock.ms)
    followers = system.give_followers(3, level=6)
    first = listed(system)
    assert first.body["next"], "127 shards are more than one page reads"
    assert every(system) == sorted(followers, key=ring.edge)


def test_a_count_beyond_the_sample_is_an_estimate(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.give_followers(300)
    assert counted(system).body == {"followers": 300, "exact": True}
    monkeypatch.setattr("fanfold.follows.follower_estimate.SAMPLE_EDGES", 100)
    assert counted(system).body["exact"], "for a minute"
    system.clock.advance(COUNT_SECONDS)
    estimate = counted(system).body
    assert estimate["exact"] is False
    assert estimate["followers"] == pytest.approx(300, rel=0.3)


def test_followers_are_shown_to_their_publisher_alone_unless_the_stage_says_otherwise(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.follow("bob")
    for answer in (listed(system, user="bob"), counted(system, user="bob")):
        assert (answer.status, answer.slug) == (403, "followers-closed")
    open_to_users(system, monkeypatch)
    assert users(listed(system, user="bob")) == ["bob"]
    assert counted(system, user="bob").body == {"followers": 1, "exact": True}


def test_an_invalid_request_for_followers_is_refused(system: System) -> None:
    for query in ({"limit": "0"}, {"cursor": "x"}, {"after": "x"}):
        assert listed(system, **query).slug == "bad-input"
    mine = system.http("api/list_following", user="bob", query={"limit": "1"})
    assert mine.body["next"] is None
    path = {"publisher_id": "a b"}
    for name in ("api/list_followers", "api/count_followers"):
        assert system.http(name, user="ada", path=path).slug == "bad-input"


def test_throttled_edges_are_answered_with_try_later(system: System, fail_first: FailFirst) -> None:
    throttles = [error("ThrottlingException")] * 9
    fail_first(system.dynamodb, "query", throttles)
    assert counted(system).slug == "try-later"
    assert listed(system).slug == "try-later"
