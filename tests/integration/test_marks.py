"""What a reader has unfollowed or muted is out of the timeline at once, and comes back whole."""

from __future__ import annotations

import pytest

from tests.integration.system import System

DAY = 86_400


def seen(system: System, user: str = "bob", **query: str) -> list[str]:
    """The publishers of the user's first page, newest first."""
    for hydrate in ("true", "false"):
        answer = system.timeline(user, hydrate=hydrate, **query)
        assert answer.status == 200, answer.body
        found = [entry["publisher_id"] for entry in answer.body["entries"]]
    return found


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
