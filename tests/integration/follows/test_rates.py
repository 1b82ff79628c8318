"""Nobody is faster than the stage allows: through the handlers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fanfold.rates import Rate
from tests.service import System, around_calls

PUBLISHED = {"version": 1, "type": "post.published"}


@pytest.fixture
def three_a_minute(system: System, monkeypatch: pytest.MonkeyPatch) -> System:
    for name in ("api", "plan"):
        door = system.door(name)
        counts = replace(door.publishing.counts, rate=Rate.a_minute(3))
        monkeypatch.setattr(door, "publishing", replace(door.publishing, counts=counts))
    return system


def send(system: System, *numbers: int, publisher: str = "ada") -> list[str]:
    """Let PLAN take messages of another service; returns the ids of the failed ones."""
    posts = [{**PUBLISHED, "publisher_id": publisher, "ref_id": f"p-{each}"} for each in numbers]
    return system.take({"Records": [system.record("Publish", each) for each in posts]})


def test_a_publisher_over_the_rate_is_told_how_long_to_wait(three_a_minute: System) -> None:
    system = three_a_minute
    for number in range(3):
        assert system.publish(str(number)).status == 202
    before = system.dump()
    waiting = system.waiting("Publish")
    refused = system.publish("3")
    assert (refused.status, refused.slug) == (429, "too-many-requests")
    assert refused.headers["retry-after"] == "20"
    assert "Retry-After" in refused.body["detail"]
    assert "(20 s)" in refused.body["detail"]  # whoever has no header at hand, as at a terminal
    assert (system.dump(), system.waiting("Publish")) == (before, waiting)
    # Nobody else is refused, and whoever repeats is answered.
    assert system.publish("3", user="grace").status == 202
    assert system.publish("0").status == 202
    system.clock.advance(20)
    assert system.publish("3").status == 202


def test_a_sender_on_the_queue_is_never_refused_but_leaves_the_fast_way_to_the_others(
    three_a_minute: System,
) -> None:
    system = three_a_minute
    users = system.give_followers(2)
    assert send(system, 0, 1, 2, 3, 4) == []
    over = [each for each in map("p-{}".format, range(5)) if system.ledger(each).lane]
    assert len(over) == 2
    assert sorted(system.open_fanouts()) == over
    assert (system.waiting("Express"), system.waiting("Bulk")) == (0, 2)
    assert all(system.ledger(each).open_key.endswith("#large") for each in over)
    system.pump()
    for number in range(5):
        assert system.reached(f"p-{number}") == users
    assert system.rejected("Publish") == []


def test_a_user_over_the_rate_is_told_how_long_to_wait(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    door = system.door("api")
    monkeypatch.setattr(door, "following", replace(door.following, rate=Rate.a_day(2)))
    for publisher in ("ada", "bea"):
        assert system.follow("bob", publisher).status == 200
    before = system.dump()
    waiting = system.waiting("Relation")
    refused = system.follow("bob", "cleo")
    assert (refused.status, refused.slug) == (429, "too-many-requests")
    assert refused.headers["retry-after"] == str(12 * 60 * 60)
    assert "(12 h)" in refused.body["detail"]
    assert (system.dump(), system.waiting("Relation")) == (before, waiting)
    assert system.follow("bob", "ada").status == 200
    assert system.follow("eve", "cleo").status == 200
    for publisher in ("ada", "bea", "nobody"):
        assert system.unfollow("bob", publisher).status == 204
    event = {"version": 1, "type": "follow.added", "user_id": "bob", "publisher_id": "cleo"}
    assert system.take({"Records": [system.record("Publish", event)]}) == []
    assert system.follow("bob", "cleo").status == 200


def test_who_is_refused_costs_the_others_no_message_and_one_write_at_most(
    three_a_minute: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = three_a_minute
    door = system.door("api")
    monkeypatch.setattr(door, "following", replace(door.following, rate=Rate.a_day(1)))
    system.follow("bob", "ada")
    for number in range(3):
        system.publish(str(number))
    calls: list[str] = []

    def note(operation: str, _request: Any, make: Callable[[], Any]) -> Any:
        calls.append(operation)
        return make()

    with around_calls(note):
        assert system.publish("3").status == 429
        assert calls == ["UpdateItem", "GetItem"]
        calls.clear()
        assert system.follow("bob", "cleo").status == 429
        assert calls == ["GetItem"] * 4
        calls.clear()
        assert system.unfollow("bob", "nobody").status == 204
        assert calls == ["GetItem"] * 3
