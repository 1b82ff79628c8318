"""Private publishers and blocks, over HTTP and by messages: who follows, and who sees what."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fanfold import contract, names, times
from fanfold.doctor.findings import Difference
from fanfold.ids import ref_id_for
from fanfold_cli.follows import taken_away
from tests.integration.follows.test_followers import open_to_users
from tests.service import AT, AT_MS, Answer, Json, System, around_calls

ENFORCED_SECONDS = 30


def choose(system: System, *, private: bool, age: str = "0") -> Json:
    headers = {contract.REQUEST_AGE: age}
    answer = system.http("api/choose_privacy", body={"private": private}, headers=headers)
    assert answer.status == 200
    found: Json = answer.body
    return found


def decide(system: System, verb: str, user: str = "bob") -> Answer:
    system.clock.advance(0.001)
    return system.http(f"api/{verb}", user="ada", path={"user_id": user})


def send(system: System, kind: str, user: str = "bob", **more: Any) -> None:
    content = {"version": 1, "type": kind, "user_id": user, "publisher_id": "ada", **more}
    system.clock.advance(0.001)
    assert system.take({"Records": [system.record("Publish", content)]}) == []


def seen(system: System, user: str = "bob") -> list[int | str]:
    """What the user is answered who looks at all of Ada's, and what its timeline shows."""
    path = {"publisher_id": "ada"}
    ids = [each["publisher_id"] for each in system.timeline(user, hydrate="false").body["entries"]]
    return [
        system.http("timeline/read_feed", user=user, path=path).status,
        system.http("timeline/read_feed", user=user, path=path, query={"hydrate": "false"}).status,
        system.http("timeline/read_post", user=user, path={"ref_id": POST}).status,
        system.http("api/list_followers", user=user, path=path).status,
        system.http("api/count_followers", user=user, path=path).status,
        *ids,
    ]


POST = ref_id_for("ada", "post-1")
OPEN, CLOSED = [200, 200, 200, 200, 200], [403, 403, 404, 403, 403]


@pytest.fixture(autouse=True)
def open_followers(system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage that shows followers to users."""
    open_to_users(system, monkeypatch)


def follow(system: System, user: str = "bob") -> Answer:
    system.clock.advance(0.001)
    return system.follow(user)


def test_a_private_publisher_is_seen_by_approved_followers_alone(system: System) -> None:
    system.publish()
    assert seen(system) == OPEN
    assert choose(system, private=True) == {
        "private": True,
        "since": AT,
        "enforced_from": times.to_text(AT_MS + ENFORCED_SECONDS * 1000),
    }
    system.clock.advance(ENFORCED_SECONDS)
    assert seen(system) == CLOSED
    asked = follow(system)
    at = times.to_text(system.clock.ms)
    request = {"publisher_id": "ada", "state": "requested", "requested_at": at}
    assert (asked.status, asked.body) == (202, request)
    assert system.http("api/show_following").body == request
    assert seen(system) == CLOSED
    page = system.http("api/list_following", query={"state": "requested"}).body
    assert page == {"following": [request], "count": 1, "next": None}
    assert system.http("api/list_following").body == {"following": [], "count": 0, "next": None}
    waiting = system.http("api/list_requests").body
    assert waiting == {"requests": [{"user_id": "bob", "requested_at": at}], "next": None}
    approved = decide(system, "approve")
    assert approved.body == {"user_id": "bob", "followed_at": times.to_text(system.clock.ms)}
    system.pump()
    assert seen(system) == [*OPEN, "ada"], "with older posts"
    assert decide(system, "remove").status == 204
    assert seen(system) == CLOSED
    assert system.http("api/show_following").slug == "no-request"
    assert decide(system, "approve").slug == "no-request"
    assert seen(system, "ada")[:5] == OPEN


def test_a_post_reaches_approved_followers_and_no_request(system: System) -> None:
    choose(system, private=True)
    for user in ("bob", "cid"):
        assert follow(system, user).status == 202
    decide(system, "approve", "bob")
    system.publish()
    system.pump()
    shown = {user: len(system.timeline(user).body["entries"]) for user in ("bob", "cid")}
    assert shown == {"bob": 1, "cid": 0}


def test_going_public_approves_what_waits(system: System) -> None:
    choose(system, private=True)
    for user in ("bob", "cid"):
        follow(system, user)
    system.pump()
    assert len(system.http("api/list_requests").body["requests"]) == 2
    system.clock.advance(1)
    assert choose(system, private=False)["private"] is False
    system.publish()
    system.pump()
    assert system.http("api/list_requests").body["requests"] == []
    assert {len(system.timeline(user).body["entries"]) for user in ("bob", "cid")} == {1}


def test_a_repeated_choice_gives_way_to_one_first_sent_later(system: System) -> None:
    choose(system, private=False)
    system.clock.advance(50)
    choose(system, private=True)
    follow(system)
    system.clock.advance(10)
    assert choose(system, private=False, age="60000")["private"] is True
    system.pump()
    assert len(system.http("api/list_requests").body["requests"]) == 1


def test_a_blocked_user_sees_a_private_publisher_who_never_answers(system: System) -> None:
    def answers() -> list[tuple[int, Any]]:
        path = {"publisher_id": "ada"}
        found = [follow(system), system.http("api/show_following")]
        found += [
            system.http("timeline/read_feed", path=path),
            system.http("timeline/read_post", user="bob", path={"ref_id": POST}),
            system.http("api/list_followers", user="bob", path=path),
            system.http("api/count_followers", user="bob", path=path),
            system.http("api/list_following", query={"state": "requested"}),
            system.unfollow("bob"),
        ]
        bodies = [dict(each.body or {}) for each in found]
        for body in bodies:
            body.pop("requested_at", None)
            for each in body.get("following", []):
                each.pop("requested_at")
        return list(zip((each.status for each in found), bodies, strict=True))

    system.publish()
    choose(system, private=True)
    system.clock.advance(ENFORCED_SECONDS)
    private = answers()
    choose(system, private=False)
    system.clock.advance(ENFORCED_SECONDS)
    assert follow(system).status == 200
    assert decide(system, "block").status == 204
    assert answers() == private
    assert system.http("api/list_blocked").body == {"blocked": [{"user_id": "bob"}], "next": None}
    assert follow(system).status == 202
    assert system.http("api/list_requests").body["requests"] == []
    refused = system.http("api/follow", user="ada", path={"publisher_id": "bob"})
    assert (refused.status, refused.slug) == (409, "blocked-by-you")
    assert decide(system, "unblock").status == 204
    assert follow(system).status == 200


@pytest.mark.parametrize(
    ("kind", "verb"),
    [
        (contract.FOLLOWER_APPROVED, "approve"),
        (contract.FOLLOWER_REMOVED, "remove"),
        (contract.USER_BLOCKED, "block"),
        (contract.USER_UNBLOCKED, "unblock"),
    ],
)
def test_a_message_does_what_its_route_does_also_twice(
    system: System, kind: str, verb: str
) -> None:
    choose(system, private=True)
    for user in ("bob", "cid"):
        follow(system, user)
    decide(system, verb, "bob")
    for _ in range(2):
        send(system, kind, "cid")
    rows = [system.follows.get(user, "ada") for user in ("bob", "cid")]
    assert rows[0].state == rows[1].state
    assert (rows[0].shut, rows[0].requested_at == "") == (rows[1].shut, rows[1].requested_at == "")


def test_a_follow_may_come_approved(system: System) -> None:
    choose(system, private=True)
    send(system, contract.FOLLOW_ADDED, approved=True)
    send(system, contract.FOLLOW_ADDED, "cid")
    states = [system.follows.get(user, "ada").state for user in ("bob", "cid")]
    assert states == ["followed", "requested"]


def test_an_approval_before_its_request_comes_again(system: System) -> None:
    choose(system, private=True)
    content = {
        "version": 1, "type": contract.FOLLOWER_APPROVED, "user_id": "bob", "publisher_id": "ada"
    }  # fmt: skip
    record = system.record("Publish", content)
    assert system.take({"Records": [record]}) == [record["messageId"]]
    follow(system)
    assert system.take({"Records": [record]}) == []
    assert system.follows.get("bob", "ada").is_active


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("choose_privacy", {"body": {}}, "'private' is missing"),
        ("choose_privacy", {"body": {"private": "yes"}}, "'private' is not true or false"),
        ("choose_privacy", {"raw": "x"}, '{"private": true}'),
        ("list_following", {"query": {"state": "x"}}, "followed or requested"),
        ("list_requests", {"query": {"cursor": "x"}}, "The cursor is not one"),
        ("list_blocked", {"query": {"cursor": "x"}}, "The cursor is not one"),
        ("approve", {"path": {"user_id": "ada"}}, "your own id"),
        ("block", {"path": {"user_id": "a#b"}}, "'user_id' is not a valid id"),
    ],
)
def test_what_is_wrong_is_said(system: System, name: str, change: Json, sentence: str) -> None:
    answer = system.http(f"api/{name}", **change)
    assert answer.status == 400
    assert sentence in answer.body["detail"]


def test_a_feed_reads_the_relation_after_its_posts(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A block that is answered while the feed is read closes it, whatever is posted then."""
    feeds = system.door("timeline").feeds()
    plain: Callable[..., Any] = feeds.outbox.newest.__func__

    def newest(*args: Any, **how: Any) -> Any:
        decide(system, "block")
        system.publish("after the block")
        return plain(*args, **how)

    monkeypatch.setattr(type(feeds.outbox), "newest", newest)
    path = {"publisher_id": "ada"}
    assert system.http("timeline/read_feed", user="bob", path=path).status == 403


def test_a_page_of_a_timeline_reads_no_relation(system: System) -> None:
    follow(system)
    system.publish()
    system.pump()
    asked: list[str] = []

    def call(operation: str, request: Json, make: Callable[[], Any]) -> Any:
        asked.append(json.dumps([operation, request]))
        return make()

    with around_calls(call):
        assert system.timeline("bob").body["entries"]
    assert asked
    for table in (names.FOLLOWING, names.PUBLISHERS):
        assert not any(table.name in each for each in asked)


# A follow that a repair has taken away


def put_back(system: System) -> str:
    line = {"user_id": "bob", "publisher_id": "ada", "what": Difference.ORPHANED}
    at = times.to_text(system.clock.ms)
    return taken_away._outcome(system.door("api").following, {**line, "at": at})


def test_a_follower_of_a_private_publisher_is_put_back_without_asking_anew(system: System) -> None:
    choose(system, private=True)
    assert put_back(system) == taken_away.BACK
    assert system.follows.get("bob", "ada").is_active


def test_who_blocks_the_publisher_meanwhile_is_not_put_back(system: System) -> None:
    assert system.http("api/block", user="bob", path={"user_id": "ada"}).status == 204
    system.clock.advance(1)
    assert put_back(system) == taken_away.ENDED


def test_an_approval_of_who_blocks_the_publisher_is_dropped(system: System) -> None:
    choose(system, private=True)
    assert system.http("api/block", user="bob", path={"user_id": "ada"}).status == 204
    audience = system.door("api").audience
    row = audience.approve("ada", "bob", asked_at=system.clock.ms, by_message=True)
    assert not row.is_active
