"""Reading posts apart from timelines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fanfold import names
from fanfold.timeline.page_reads import Range
from tests.service import AT, POST, Answer, FailFirst, System, error

DAY = 24 * 60 * 60


def get(system: System, ref_id: str = POST, *, user: str = "bob") -> Answer:
    return system.http("timeline/read_post", user=user, path={"ref_id": ref_id})


def edit(system: System, title: str) -> None:
    assert system.http("api/edit_post", body={"body": {"title": title}}).status == 200


def let_read(system: System, readers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deploy `timeline` with another switch."""
    door = system.door("timeline")
    feeds = replace(door.feeds(), readers=readers)
    monkeypatch.setattr(door, "feeds", lambda: feeds)


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
    without_a_body = system.publish("bare").body["ref_id"]
    assert get(system, without_a_body).body["body"] is None


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
    feeds = replace(door.feeds(), retention_days=3650)
    monkeypatch.setattr(door, "feeds", lambda: feeds)
    system.clock.ms = system.post().expires_at * 1000 - 1
    assert get(system).status == 200
    system.clock.ms += 1
    assert get(system).status == 404


def test_a_throttled_read_is_answered_with_try_later(system: System, fail_first: FailFirst) -> None:
    system.publish()
    fail_first(
        system.door("timeline").stores.client, "get_item", [error("ThrottlingException")] * 5
    )
    assert get(system).slug == "try-later"
    assert get(system, "a b").slug == "bad-input"


# A publisher's own feed


def feed(system: System, publisher: str = "ada", *, user: str = "bob", **query: str) -> Answer:
    path = {"publisher_id": publisher}
    return system.http("timeline/read_feed", user=user, path=path, query=query)


def refs(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [each["ref_id"] for each in answer.body["entries"]]


def publish(system: System, count: int, *, user: str = "ada") -> list[str]:
    """Publish posts a second apart; returns their ids, newest first."""
    found = []
    for number in range(count):
        system.clock.advance(1)
        answer = system.publish(f"{number}", user=user, body={"number": number})
        found.append(answer.body["ref_id"])
    return found[::-1]


def test_a_feed_has_the_publishers_own_posts_newest_first(system: System) -> None:
    published = publish(system, 3)
    publish(system, 1, user="grace")
    edit_of = system.http("api/edit_post", path={"ref_id": published[0]}, body={"body": {}})
    answer = feed(system)
    assert refs(answer) == published
    first, second, _ = answer.body["entries"]
    assert (first["edited_at"], first["body"]) == (edit_of.body["edited_at"], {})
    assert (second["edited_at"], second["body"]) == (None, {"number": 1})
    assert {each["publisher_id"] for each in answer.body["entries"]} == {"ada"}
    assert answer.body["next"] is None
    assert refs(feed(system, "nobody")) == []


@pytest.mark.parametrize("limit", [1, 4, 5])
def test_a_feed_is_paged_downwards_and_upwards_without_a_gap(system: System, limit: int) -> None:
    published = publish(system, 4)
    down: list[str] = []
    query = {"limit": str(limit)}
    for _ in range(5):
        answer = feed(system, **query)
        down += refs(answer)
        if answer.body["next"] is None:
            break
        query["before"] = answer.body["next"]
    assert down == published
    newest = feed(system, limit="1").body["previous"]
    more = publish(system, 9)[:5]  # the first four are repeated
    up: list[str] = []
    for _ in range(5):
        answer = feed(system, limit=str(limit), after=newest)
        up = refs(answer) + up
        newest = answer.body["previous"]
        if "more" not in answer.body:
            break
    assert up == more


def test_a_feed_is_read_between_two_times(system: System) -> None:
    published = publish(system, 4)
    at = [system.post(each).published_at for each in published]
    assert refs(feed(system, **{"from": at[2], "to": at[0]})) == published[1:3]
    assert feed(system, before="x").slug == "bad-input"
    assert feed(system, hydrate="x").slug == "bad-input"
    assert feed(system, cursor="x").slug == "bad-input"


def test_retracted_posts_leave_a_feed_whose_pages_are_full(system: System) -> None:
    published = publish(system, 5)
    for ref_id in published[1:3]:
        assert system.http("api/retract_post", path={"ref_id": ref_id}).status == 204
    rest = [published[0], *published[3:]]
    assert refs(feed(system)) == refs(feed(system, hydrate="false")) == rest
    assert refs(feed(system, limit="2")) == rest[:2]


def test_a_retraction_that_the_index_has_not_heard_of_is_left_out(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish(system, 2)
    outbox = system.door("timeline").feeds().outbox
    before = outbox.newest("ada", Range("2026"), before=None, limit=9)
    system.http("api/retract_post", path={"ref_id": published[0]})
    monkeypatch.setattr(type(outbox), "newest", lambda *_args, **_more: before)
    assert refs(feed(system)) == published[1:]
    assert refs(feed(system, hydrate="false")) == published, "posts are not looked at"


def test_a_feed_ends_with_the_retention(system: System) -> None:
    publish(system, 2)
    system.clock.advance(30 * DAY - 0.5)
    assert len(refs(feed(system))) == 1
    system.clock.advance(1)
    assert refs(feed(system)) == []


def test_the_switch_closes_feeds_to_all_but_their_publisher(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = publish(system, 1)
    let_read(system, names.PUBLISHER, monkeypatch)
    assert refs(feed(system, user="ada")) == published
    closed = [feed(system, publisher) for publisher in ("ada", "nobody")]
    let_read(system, names.USERS, monkeypatch)
    system.http("api/choose_privacy", body={"private": True})
    system.clock.advance(30)
    closed.append(feed(system))
    assert [(each.status, each.slug) for each in closed] == [(403, "feed-closed")] * 3
    assert len({each.body["detail"] for each in closed}) == 1
