"""Editing a post, over HTTP and over the queue: in any order, twice, and whoever asks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fanfold import times
from tests.service import AT, AT_MS, POST, Json, System, event

EDITED = {"title": "Hello", "text": "Grüße aus dem Äther, verbessert 👋"}
QUEUED = "post-1"  # the post of the events of the queue


def message(system: System, kind: str = "post.updated", *, sent: int = 0, **fields: Any) -> Json:
    """A message about the queue's post, sent so many milliseconds from now."""
    ids = {"publisher_id": "ada", "ref_id": QUEUED}
    record = system.record("Publish", {"version": 1, "type": kind, **ids, **fields})
    record["attributes"]["SentTimestamp"] = str(system.clock.ms + sent)
    return record


def edit(system: System, title: str, **more: Any) -> Json:
    return message(system, body={"title": title}, **more)


def take(system: System, *records: Json) -> list[str]:
    """Let PLAN take messages one by one; returns the ids of those that come again."""
    return [each for record in records for each in system.take({"Records": [record]})]


def put(
    system: System, title: str, *, user: str = "ada", ref_id: str = POST, age: str | None = None
) -> Any:
    body, path = {"body": {"title": title}}, {"ref_id": ref_id}
    headers = {} if age is None else {"request-age": age}
    return system.http("api/edit_post", user=user, body=body, path=path, headers=headers)


def content(system: System, ref_id: str = QUEUED) -> tuple[str, str]:
    """The title of a stored post, and when it was edited."""
    post = system.post(ref_id)
    return json.loads(post.body)["title"], post.edited_at


def shown(system: System) -> list[tuple[str, str | None]]:
    entries = system.timeline("bob").body["entries"]
    return [(entry["body"]["title"], entry["edited_at"]) for entry in entries]


def after(ms: int) -> str:
    return times.to_text(AT_MS + ms)


@pytest.fixture
def published(system: System) -> System:
    """A system in which bob has a post of ada's by HTTP."""
    system.follow("bob")
    system.publish(body={"title": "First"})
    system.pump("Publish", "Express")
    return system


def test_an_edit_is_shown_with_its_time_and_writes_no_entry(published: System) -> None:
    system = published
    assert shown(system) == [("First", None)]
    before = system.rows_of("Timelines"), system.rows_of("Fanouts")
    system.clock.advance(5)
    answer = system.http("api/edit_post")
    assert (answer.status, answer.body) == (200, {"ref_id": POST, "edited_at": after(5_000)})
    (entry,) = system.timeline("bob").body["entries"]
    assert (entry["body"], entry["edited_at"]) == (EDITED, after(5_000))
    assert (entry["published_at"], system.post().accepted_at) == (AT, AT)
    assert before == (system.rows_of("Timelines"), system.rows_of("Fanouts"))
    assert system.waiting("Publish") == 0


def test_an_edit_on_the_queue_is_that_of_its_send(system: System) -> None:
    take(system, event("publish_queue/post_published")["Records"][0])
    system.clock.advance(60)
    assert take(system, event("publish_queue/post_updated")["Records"][0]) == []
    assert content(system) == ("Hello", AT)
    assert system.rejected("Publish") == []


def test_an_edit_over_http_that_was_overtaken_says_so(published: System) -> None:
    take(published, edit(published, "Newer", ref_id=POST, sent=10))
    for ms in (0, 10):
        published.clock.ms = AT_MS + ms
        answer = put(published, "Older")
        assert (answer.status, answer.slug) == (409, "edit-overtaken")
        assert f"has a newer or equally new edit, of {after(10)}" in answer.body["detail"]
        assert content(published, POST) == ("Newer", after(10))
    published.clock.advance(0.001)
    assert put(published, "Newest").status == 200


@pytest.mark.parametrize("age", ["", "-1", "1.5", "3600001", "²"])
def test_an_age_that_cannot_be_read_is_refused(published: System, age: str) -> None:
    answer = put(published, "Edited", age=age)
    assert (answer.status, answer.slug) == (400, "bad-input")
    assert "The Request-Age header must be a whole number of milliseconds" in answer.body["detail"]
    assert content(published, POST)[0] == "First"


# Before the post, after its retraction, somebody else's


def test_an_edit_before_its_post_comes_again_and_then_finds_it(system: System) -> None:
    record = edit(system, "Better", sent=1)
    assert take(system, record) == [record["messageId"]]
    assert system.rows_of("Posts") == [], "it leaves nothing behind"
    take(system, message(system, "post.published", body={"title": "First"}))
    assert content(system) == ("First", "")
    assert take(system, record) == []
    assert content(system) == ("Better", after(1))


def test_an_edit_before_its_post_is_tried_again_soon_and_then_ever_later(system: System) -> None:
    """As long as four visibility timeouts, but for the first of them nobody waits."""
    system.sqs.send_message(QueueUrl=system.url("Publish"), MessageBody=edit(system, "X")["body"])
    for seconds in (10, 30, 350, 1_050):
        assert system.pump_once("Publish")
        system.clock.advance(seconds - 1)
        assert not system.pump_once("Publish")
        system.clock.advance(1.1)
    take(system, message(system, "post.published", body={"title": "First"}))
    assert system.pump_once("Publish")
    assert (content(system)[0], system.waiting("Publish")) == ("X", 0)


def test_a_repeated_edit_gives_way_to_one_that_was_sent_after_it(published: System) -> None:
    published.clock.advance(10)
    assert put(published, "Newer").status == 200
    published.clock.advance(1)
    answer = put(published, "Older", age="1001")
    assert (answer.status, answer.slug) == (409, "edit-overtaken")
    assert content(published, POST) == ("Newer", after(10_000))
    assert put(published, "Newest", age="999").body["edited_at"] == after(10_001)
