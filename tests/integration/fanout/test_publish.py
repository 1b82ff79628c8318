"""Publishing and retracting, over HTTP and over the queue."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import json_text, times
from fanfold.fanout.publishing.publish import SILENT_MS
from fanfold.fanout.row import VOID
from fanfold.ids import ref_id_for
from tests.service import AT, AT_MS, POST, FailFirst, Json, System, around_calls, error, event

# The life of an entry, and how much longer its post keeps its id.
UNTIL_FREE_SECONDS = (30 + 14) * 86_400


def test_an_accepted_post_is_stored_with_an_open_ledger_row_and_a_command_to_plan(
    system: System,
) -> None:
    answer = system.http("api/publish_post")
    assert (answer.status, answer.headers["content-type"]) == (202, "application/json")
    assert answer.body == {
        "ref_id": POST,
        "published_at": "2026-11-20T17:59:58.000Z",
        "accepted_at": AT,
    }
    post, ledger = system.post(), system.ledger()
    assert post.publisher_id == ledger.publisher_id == "ada"
    assert post.sort_key == ledger.sort_key == f"2026-11-20T17:59:58.000Z#{POST}"
    assert json.loads(post.body) == {"title": "Hello", "text": "Grüße aus dem Äther 👋"}
    assert ledger.state == "queued"
    assert system.open_fanouts() == [POST]
    (record,) = system.receive("Publish")
    assert json.loads(record["body"]) == {"version": 1, "type": "fanout.plan", "fanout_id": POST}
    assert record["attributes"]["MessageGroupId"] == "ada"


def test_a_post_without_a_key_is_given_another_ref_id_each_time(system: System) -> None:
    first, second = (system.http("api/publish_post_without_key") for _ in range(2))
    assert first.status == second.status == 202
    assert len(first.body["ref_id"]) == 32
    assert first.body["ref_id"] != second.body["ref_id"]


@pytest.mark.parametrize("ref_id", ["post-1", None])
def test_a_user_chooses_no_ref_id(system: System, ref_id: Any) -> None:
    answer = system.http("api/publish_post", body={"ref_id": ref_id, "body": {"title": "Hello"}})
    assert (answer.status, answer.slug) == (400, "bad-input")
    for says in ("'ref_id' cannot be chosen", "Idempotency-Key", "publish by the queue"):
        assert says in answer.body["detail"]
    assert not any(system.dump().values())


def test_a_request_and_each_message_are_read_once(system: System) -> None:
    with patch.object(json_text, "read", wraps=json_text.read) as read:
        system.follow("bob")
        system.publish(body={"title": "Hello"})
        system.pump()
        system.clock.advance(60)
        system.pump()
        event = {"version": 1, "type": "post.published", "publisher_id": "ada", "ref_id": "one"}
        system.take({"Records": [system.record("Publish", {**event, "body": {}})]})
    kinds = Counter(json.loads(call.args[0]).get("type") for call in read.call_args_list)
    commands = ("fanout.plan", "relation.backfill", "relation.settle")
    assert kinds == dict.fromkeys((None, "post.published", *commands), 1)


# Idempotency keys


@pytest.mark.parametrize(("second_user", "is_same"), [("ada", True), ("grace", False)])
def test_an_idempotency_key_stands_for_one_post_of_one_publisher(
    system: System, second_user: str, is_same: bool
) -> None:
    first = system.http("api/publish_post")
    system.clock.advance(60)
    before = system.dump()
    second = system.http("api/publish_post", user=second_user)
    assert first.status == second.status == 202
    assert (first.body == second.body) is is_same
    assert (first.body["ref_id"] == second.body["ref_id"]) is is_same
    assert (system.dump() == before) is is_same


EARLIER, SOON, LATER = (times.to_text(AT_MS + ms) for ms in (-2_000, 30_000, 120_000))
# The content that is sent first, and the content that is sent again under the same key a minute
# after: with another order of members, another spelling, or what was stored instead.
REPEATS: dict[str, tuple[Json, Json]] = {
    "nothing": ({}, {}),
    "null": ({}, {"published_at": None, "body": None}),
    "a body": ({"body": {"a": 1, "b": [1.5, None]}}, {"body": {"b": [1.5, None], "a": 1}}),
    "a time of another offset": (
        {"published_at": "2026-11-20T17:59:58.000Z"},
        {"published_at": "2026-11-20T19:59:58.000+02:00"},
    ),
    "a time in the future": ({"published_at": LATER}, {"published_at": LATER}),
    "a time in the future that has come": ({"published_at": SOON}, {"published_at": SOON}),
    "the stored time": ({}, {"published_at": AT}),
}
OTHERS: dict[str, tuple[Json, Json]] = {
    "another body": ({"body": {"a": 1}}, {"body": {"a": 2}}),
    "no body": ({"body": {}}, {}),
    "another order of a list": ({"body": {"a": [1, 2]}}, {"body": {"a": [2, 1]}}),
    "true for 1": ({"body": {"a": 1}}, {"body": {"a": True}}),
    "another time": ({"published_at": EARLIER}, {"published_at": times.to_text(AT_MS - 2_001)}),
    "no time": ({"published_at": EARLIER}, {}),
    "an earlier time than that of acceptance": ({}, {"published_at": EARLIER}),
}


@pytest.mark.parametrize(("first", "again"), REPEATS.values(), ids=REPEATS)
def test_the_same_post_under_its_key_has_the_same_answer(
    system: System, first: Json, again: Json
) -> None:
    accepted = system.publish(**first)
    before = system.dump()
    system.clock.advance(60)
    repeated = system.publish(**again)
    assert (repeated.status, repeated.body) == (202, accepted.body)
    assert system.dump() == before


@pytest.mark.parametrize(("first", "other"), OTHERS.values(), ids=OTHERS)
def test_another_post_under_a_used_key_is_422_and_changes_nothing(
    system: System, first: Json, other: Json
) -> None:
    assert system.publish(**first).status == 202
    system.pump()
    before = system.dump()
    system.clock.advance(60)
    answer = system.publish(**other)
    assert (answer.status, answer.slug) == (422, "key-reused")
    assert "with a key of its own" in answer.body["detail"]
    assert system.dump() == before
    assert system.waiting("Publish") == 0


def test_a_post_whose_answer_was_lost_is_found_by_its_key_and_retracted(system: System) -> None:
    late = system.publish  # the first request may still be under way
    found = system.publish().body["ref_id"]
    assert system.http("api/retract_post", path={"ref_id": found}).status == 204
    answer = late()
    assert (answer.status, answer.slug) == (410, "post-retracted")
    assert "another Idempotency-Key" in answer.body["detail"]
    system.pump()
    assert system.post().deleted


# Times


@pytest.mark.parametrize(
    ("published_at", "stored"),
    [
        ("2026-11-20T18:00:00.124Z", AT),
        (None, AT),
        ("2026-11-20T18:00:00.122Z", "2026-11-20T18:00:00.122Z"),
        ("2026-11-20t20:00:00.1+02:00", "2026-11-20T18:00:00.100Z"),
    ],
)
@pytest.mark.parametrize("door", ["api", "publish_queue"])
def test_only_a_missing_or_future_time_becomes_the_time_of_acceptance(
    system: System, door: str, published_at: str | None, stored: str
) -> None:
    if door == "api":
        ref_id = system.publish(published_at=published_at, body=None).body["ref_id"]
    else:
        ref_id, content = "r", {**PUBLISHED, "published_at": published_at, "body": None}
        system.take({"Records": [system.record("Publish", content)]})
    post = system.post(ref_id)
    assert (post.published_at, post.accepted_at, post.body) == (stored, AT, "")


def test_a_post_as_old_as_the_retention_is_refused_and_a_younger_one_is_not(system: System) -> None:
    too_old = system.publish("old", published_at="2026-10-21T18:00:00.000Z")
    assert (too_old.status, too_old.slug) == (400, "bad-input")
    assert "30 days" in too_old.body["detail"]
    younger = system.publish("younger", published_at="2026-10-21T18:00:01.000Z")
    assert younger.status == 202
    assert [item["ref_id"]["S"] for item in system.rows_of("Posts")] == [younger.body["ref_id"]]


# Faults


def test_a_repeat_sends_a_command_again_that_seems_lost(system: System) -> None:
    for seconds, sent in ((0, 1), (SILENT_MS / 1000 - 0.001, 1), (0.001, 2)):
        system.clock.advance(seconds)
        assert system.publish().status == 202
        assert system.waiting("Publish") == sent


def test_a_post_that_was_stored_after_its_row_was_void_is_delivered(system: System) -> None:
    """Its door was frozen before it stored the post, and PLAN has ended the row meanwhile."""
    users, frozen = system.give_followers(3), list[int]()

    def freeze(operation: str, request: Json, make: Callable[[], Any]) -> Any:
        puts_post = (operation, request.get("TableName")) == ("PutItem", "Posts")
        if puts_post and not frozen:
            frozen.append(1)
            system.clock.advance(200)
            system.sweep()
            system.pump()
            assert system.ledger().state == "void"
            system.clock.advance(400)
        return make()

    with around_calls(freeze):
        assert system.publish().status == 202
    for _ in range(5):
        system.pump()
        system.clock.advance(300)
        system.sweep()
    assert (system.reached(), system.ledger().state) == (users, "complete")


def test_a_throttled_table_is_answered_with_try_later(
    system: System, fail_first: FailFirst
) -> None:
    fail_first(system.dynamodb, "put_item", [error("ThrottlingException")])
    answer = system.publish()
    assert (answer.status, answer.slug) == (503, "try-later")
    assert int(answer.headers["retry-after"]) >= 1
    assert system.publish().status == 202


def test_an_internal_error_shows_the_request_id_and_no_details(
    system: System, fail_first: FailFirst
) -> None:
    fail_first(system.dynamodb, "put_item", [error("AccessDeniedException")])
    answer = system.publish()
    assert (answer.status, answer.slug) == (500, "internal")
    request_id = event("api/publish_post")["requestContext"]["requestId"]
    assert request_id in answer.body["detail"]
    assert "AccessDenied" not in json.dumps(answer.body)


# Retraction


def test_a_retracted_post_loses_its_content_and_leaves_the_outbox(system: System) -> None:
    system.http("api/publish_post")
    answer = system.http("api/retract_post")
    assert (answer.status, answer.body) == (204, None)
    (post,) = system.rows_of("Posts")
    assert post["deleted_at"] == {"S": AT}
    assert not {"body", "sort_key"} & post.keys()
    before = system.dump()
    system.clock.advance(60)
    assert system.http("api/retract_post").status == 204
    assert system.dump() == before, "a second one changes nothing"


def test_a_retraction_on_the_queue_before_its_publish_wins(system: System) -> None:
    system.give_followers(2)
    assert system.take(event("publish_queue/post_deleted")) == []
    assert system.take(event("publish_queue/post_published")) == []
    assert system.rejected("Publish") == []
    system.pump()
    assert system.reached("post-1") == []
    assert system.ledger("post-1").state == VOID
    assert system.open_fanouts() == []
    assert system.http("api/show_delivery", path={"ref_id": "post-1"}).status == 404
    again = system.http("api/retract_post", path={"ref_id": "post-1"})
    assert again.status == 204, "it is retracted, and by its publisher"


@pytest.mark.parametrize("name", ["api/retract_post", "api/edit_post"])
def test_unpublished_expired_and_others_posts_are_not_found_in_the_same_words(
    system: System, name: str
) -> None:
    def refused(ref_id: str, *, user: str = "eve") -> str:
        """What the door says to a request that is refused, which leaves everything as it is."""
        before = system.dump()
        answer = system.http(name, user=user, path={"ref_id": ref_id})
        assert (answer.status, answer.slug) == (404, "no-post")
        assert system.dump() == before
        return str(answer.body["detail"]).replace(ref_id, "REF_ID")

    sentences = {refused("unused"), refused(ref_id_for("eve", "unused"))}
    system.http("api/publish_post")
    sentences.add(refused(POST))
    assert system.http("api/edit_post").status == 200
    sentences.add(refused(POST))
    system.take(event("publish_queue/post_published"))
    sentences.add(refused("post-1"))
    system.http("api/retract_post")
    sentences.add(refused(POST))  # somebody else's that is retracted
    system.clock.advance(UNTIL_FREE_SECONDS)
    sentences.add(refused(POST, user="ada"))  # one's own that has expired
    assert len(sentences) == 1
    assert "You have no published post 'REF_ID'" in sentences.pop()


def test_another_publishers_retraction_on_the_queue_is_rejected(system: System) -> None:
    content = {**PUBLISHED, "publisher_id": "grace", "ref_id": "post-1"}
    system.take({"Records": [system.record("Publish", content)]})
    system.take(event("publish_queue/post_deleted"))
    ((_, reason),) = system.rejected("Publish")
    assert "another publisher" in reason
    assert not system.post("post-1").deleted


def test_a_ref_id_on_the_queue_belongs_to_its_first_publisher(system: System) -> None:
    system.take(event("publish_queue/post_published"))
    before = system.dump()
    content = {**PUBLISHED, "publisher_id": "eve", "ref_id": "post-1", "body": {"text": "Stolen"}}
    system.take({"Records": [system.record("Publish", content)]})
    ((_, reason),) = system.rejected("Publish")
    assert "another publisher" in reason
    assert "Grüße" not in reason
    for table in ("Posts", "Fanouts"):
        assert system.dump()[table] == before[table]


def test_an_encoded_id_in_the_path_is_decoded(system: System) -> None:
    content = {**PUBLISHED, "publisher_id": "ada", "ref_id": "ada@example.org"}
    system.take({"Records": [system.record("Publish", content)]})
    system.http("api/retract_post", path={"ref_id": "ada%40example.org"})
    assert system.post("ada@example.org").deleted


# The queue


def test_a_publish_over_the_queue_is_accepted_and_delivered_at_once(system: System) -> None:
    users = system.give_followers(3)
    assert system.take(event("publish_queue/post_published")) == []
    assert system.ledger("post-1").state == "complete"
    assert system.reached("post-1") == users


def test_bad_messages_of_a_batch_do_not_hold_up_good_ones(system: System) -> None:
    users = system.give_followers(2)
    batch = event("publish_queue/good_and_bad")
    assert system.take(batch) == []
    system.pump()
    assert system.reached("post-1") == system.reached("post-4") == users
    rejected = system.rejected("Publish")
    assert sorted(body for body, _ in rejected) == sorted(
        record["body"] for record in batch["Records"][1:6]
    )
    for says in (
        "not JSON",
        "version is not one that is read here",
        "'ref_id' is missing",
        "type is not known",
        "knows no fan-out 'never-published'",
    ):
        assert any(says in reason for _, reason in rejected), says


PUBLISHED: Json = {"version": 1, "type": "post.published", "publisher_id": "a", "ref_id": "r"}


def test_a_message_that_cannot_be_rejected_comes_again(
    system: System, fail_first: FailFirst
) -> None:
    fail_first(system.sqs, "send_message", [error("ServiceUnavailable", 503)])
    record = system.record("Publish", "noise")
    assert system.take({"Records": [record]}) == [record["messageId"]]


# Routes and users


@pytest.mark.parametrize(
    ("name", "status", "slug", "says"),
    [
        ("no_such_route", 404, "no-route", "POST /v1/posts"),
        ("claim_missing", 401, "no-user", "'sub'"),
        ("publish_post_without_body", 400, "bad-input", "body"),
    ],
)
def test_an_unknown_route_a_token_without_the_claim_and_no_body_are_refused(
    system: System, name: str, status: int, slug: str, says: str
) -> None:
    answer = system.http(f"api/{name}")
    assert (answer.status, answer.slug) == (status, slug)
    assert says in answer.body["detail"]


def test_the_times_of_the_events_are_those_of_this_file() -> None:
    assert event("api/publish_post")["requestContext"]["timeEpoch"] == AT_MS
    sent = event("publish_queue/post_published")["Records"][0]["attributes"]["SentTimestamp"]
    assert int(sent) == AT_MS
