"""Reading posts apart from timelines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fanfold import names
from tests.integration.system import AT, POST, Answer, System, error

DAY = 24 * 60 * 60


def get(system: System, ref_id: str = POST, *, user: str = "bob") -> Answer:
    return system.http("timeline/read_post", user=user, path={"ref_id": ref_id})


def edit(system: System, title: str) -> None:
    assert system.http("api/edit_post", body={"body": {"title": title}}).status == 200


def let_read(system: System, readers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deploy QUERY with another switch."""
    door = system.door("timeline")
    monkeypatch.setattr(door, "feeds", replace(door.feeds, readers=readers))


def test_any_user_reads_a_post_without_following(system: System) -> None:
    system.http("api/publish_post")
    answer = get(system)
    assert (answer.status, answer.body) == (
        200,
        {
            "ref_id": POST,
            "publisher_id": "ada",
            "published_at": "2026-11-20T17:59:58.000Z",
            "edited_at": None,
            "body": {"title": "Hello", "text": "Grüße aus dem Äther 👋"},
        },
    )


def test_a_post_without_a_body_is_read_as_null(system: System) -> None:
    system.publish()
    assert get(system).body["body"] is None


def test_an_edit_is_read_at_once(system: System) -> None:
    system.publish(body={"title": "First"})
    for title in ("Second", "Third"):
        assert get(system).status == 200
        system.clock.advance(0.001)
        edit(system, title)
        assert get(system).body["body"] == {"title": title}
    assert get(system).body["edited_at"] > AT


def not_found(system: System, ref_id: str = POST, *, user: str = "bob") -> str:
    answer = get(system, ref_id, user=user)
    assert (answer.status, answer.slug) == (404, "no-post")
    return str(answer.body["detail"]).replace(ref_id, "REF_ID")


def test_unknown_retracted_expired_and_closed_posts_are_not_found_in_the_same_words(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences = {not_found(system, "unknown")}
    system.publish(body={"title": "First"})
    let_read(system, names.PUBLISHER, monkeypatch)
    sentences.add(not_found(system))
    assert get(system, user="ada").body["body"] == {"title": "First"}
    let_read(system, names.USERS, monkeypatch)
    system.http("api/retract_post")
    sentences |= {not_found(system), not_found(system, user="ada")}
    system.publish("post-2")
    ref_id = system.publish("post-2").body["ref_id"]
    system.clock.advance(30 * DAY + 1)
    sentences.add(not_found(system, ref_id))
    assert len(sentences) == 1


@pytest.mark.parametrize(("ms", "status"), [(0, 200), (1, 404)])
def test_a_post_is_read_as_long_as_timelines_show_it(system: System, ms: int, status: int) -> None:
    system.follow("bob")
    system.publish()
    system.pump("Publish", "Express")
    system.clock.ms += 30 * DAY * 1000 + ms
    assert get(system).status == status
    assert len(system.timeline("bob").body["entries"]) == (status == 200)


def test_a_row_that_has_expired_is_no_post_whatever_the_retention(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.publish()
    door = system.door("timeline")
    monkeypatch.setattr(door, "feeds", replace(door.feeds, retention_days=3650))
    system.clock.ms = system.post().expires_at * 1000 - 1
    assert get(system).status == 200
    system.clock.ms += 1
    assert get(system).status == 404


def test_a_throttled_read_is_answered_with_try_later(
    system: System, fail_first: Callable[..., list[Any]]
) -> None:
    system.publish()
    fail_first(system.door("timeline").dynamodb, "get_item", [error("ThrottlingException")] * 5)
    assert get(system).slug == "try-later"
    assert get(system, "a b").slug == "bad-input"
