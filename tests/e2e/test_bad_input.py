"""Bad input to the deployed functions: the right status, a helpful sentence, and nothing lost."""

import base64
import json
import os
import uuid
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from fanfold import contract, cursor
from fanfold.cursor import Cursor
from fanfold_cli.stack import Deployment
from tests.e2e.clients import Answer, User, eventually, send


@pytest.fixture(scope="module")
def user(stack: Deployment) -> User:
    name = f"user-{uuid.uuid4().hex[:8]}"
    return User(stack, name, stack.token(name))


def check_problem(answer: Answer, status: int, hint: str) -> None:
    """Check that the answer is a problem document (RFC 9457) with this status and hint."""
    assert answer.status == status, answer
    assert answer.kind == "application/problem+json"
    assert answer.content["status"] == status
    assert answer.content["type"].startswith(f"{contract.PROBLEMS_PAGE}#")
    assert hint in answer.content["detail"]


@pytest.mark.parametrize(
    ("content", "status", "hint"),
    [
        ({"surprise": 1}, 400, "Unknown field 'surprise'; the known ones are published_at"),
        ({"ref_id": "post-1"}, 400, "'ref_id' cannot be chosen over HTTP"),
        ({"ref_id": None}, 400, "send an Idempotency-Key header"),
        ({"body": "text"}, 400, "'body' is not a JSON object"),
        ({"body": {"title": "x" * 4096}}, 413, "may be 4096"),
        ({"published_at": "yesterday"}, 400, "2026-11-20T18:00:00.123Z"),
        ({"published_at": "2026-02-30T00:00:00.000Z"}, 400, "'published_at'"),
        ({"published_at": "2026-11-20T18:00:00"}, 400, "2026-11-20T20:00:00+02:00"),
        ({"published_at": "2001-01-01T00:00:00.000Z"}, 400, "longer than timelines keep"),
        ([], 400, "not a JSON object"),
    ],
)
def test_a_post_that_breaks_the_contract_is_refused(
    user: User, content: Any, status: int, hint: str
) -> None:
    check_problem(user.call("POST", "/v1/posts", content), status, hint)


@pytest.mark.parametrize(
    ("raw", "status", "hint"),
    [
        (b"", 400, "not JSON"),
        (b"{", 400, "not JSON"),
        (b"\xff\xfe{}", 400, ""),
        (b'{"body":{"a":NaN}}', 400, "NaN"),
        (b'{"body":{"a":1,"a":2}}', 400, "two members named 'a'"),
        (b'{"body":{"a":"\\ud800"}}', 400, "surrogate"),
        (b"[" * 5000, 400, "The request body is"),
        (b'{"body":{"a":"' + b"x" * 20_000 + b'"}}', 413, "larger than 16384 bytes"),
    ],
)
def test_a_body_that_is_not_usable_json_is_refused(
    user: User, raw: bytes, status: int, hint: str
) -> None:
    answer = user.call("POST", "/v1/posts", raw=raw, content_type="application/json")
    check_problem(answer, status, hint)


@pytest.mark.parametrize("depth", [101, 300, 2000])
def test_a_body_nested_too_deeply_is_refused(user: User, depth: int) -> None:
    raw = b'{"body":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    answer = user.call("POST", "/v1/posts", raw=raw, content_type="application/json")
    check_problem(answer, 400, "nested")


def test_a_time_with_an_offset_is_stored_in_milliseconds_of_utc(user: User) -> None:
    local = (datetime.now(UTC) - timedelta(minutes=5)).astimezone(timezone(timedelta(hours=2)))
    accepted = user.publish(published_at=local.isoformat(timespec="microseconds"))
    in_utc = local.astimezone(UTC).isoformat(timespec="milliseconds")  # cuts off, too
    assert accepted["published_at"] == in_utc.replace("+00:00", "Z")


def test_a_time_in_the_future_is_clamped_to_acceptance(user: User) -> None:
    accepted = user.publish(published_at="2099-01-01T00:00:00.000Z")
    assert accepted["published_at"] == accepted["accepted_at"]


@pytest.mark.parametrize("limit", ["0", "101", "x", "-1", "1.5", "", "1e1", "٣"])
@pytest.mark.parametrize("path", ["/v1/timeline", "/v1/following"])
def test_a_limit_outside_its_bounds_is_refused(user: User, path: str, limit: str) -> None:
    answer = user.call("GET", f"{path}?limit={limit}")
    check_problem(answer, 400, "'limit' must be a whole number from 1 to 100")


@pytest.mark.parametrize(
    "cursor", ["garbage", "2", "2!!!!", "2MTIz", "1YQoK", "2IyMKCg", "2" + "A" * 700]
)
def test_a_foreign_cursor_is_refused(user: User, cursor: str) -> None:
    hint = "take 'next' or 'previous' from the last answer unchanged"
    check_problem(user.call("GET", f"/v1/timeline?before={cursor}"), 400, hint)
    check_problem(user.call("GET", f"/v1/following?cursor={cursor}"), 400, hint)


def test_a_cursor_older_than_the_retention_reads_an_empty_page(user: User) -> None:
    answer = user.timeline(before=cursor.encode(Cursor.at("2001-01-01T00:00:00.000Z#a")))
    assert (answer["entries"], answer["next"]) == ([], None)


def test_an_unknown_parameter_is_refused_with_the_known_ones(user: User) -> None:
    known = ", ".join(contract.READ_TIMELINE.query)
    check_problem(user.call("GET", "/v1/timeline?befor=x"), 400, known)


@pytest.mark.parametrize("method_path", ["GET /v1/nothing", "PATCH /v1/posts"])
def test_an_unknown_route_reaches_no_function(user: User, method_path: str) -> None:
    """The stage has `cors_origins`, so API Gateway itself answers what is no route."""
    answer = user.call(*method_path.split())
    assert (answer.status, answer.content) == (404, {"message": "Not Found"})


@pytest.mark.parametrize("publisher", ["a%23b", "x" * 129, "%20"])
def test_following_an_invalid_publisher_id_is_refused(user: User, publisher: str) -> None:
    check_problem(user.call("PUT", f"/v1/following/{publisher}"), 400, "'publisher_id'")


@pytest.mark.parametrize("method_path", ["GET /v1/timeline", "POST /v1/posts"])
def test_a_request_without_a_valid_token_gets_401(stack: Deployment, method_path: str) -> None:
    method, path = method_path.split()
    for token in ("", "garbage", "a.b.c"):
        assert User(stack, "nobody", token).call(method, path).status == 401


def test_malformed_messages_become_dead_letters_and_delay_no_others(
    stack: Deployment,
) -> None:
    settings, sqs = stack.settings(), stack.client("sqs")
    follower_name = f"follower-{uuid.uuid4().hex[:8]}"
    follower = User(stack, follower_name, stack.token(follower_name))
    publisher_name = f"publisher-{uuid.uuid4().hex[:8]}"
    publisher = User(stack, publisher_name, stack.token(publisher_name))
    follower.follow(publisher)
    ref_id = uuid.uuid4().hex
    good = {"type": "post.published", "publisher_id": publisher_name, "ref_id": ref_id}
    # The engine refuses messages over 256 KiB, the reason included; tests on moto send a MiB.
    noise = base64.b64encode(os.urandom(150_000)).decode()
    bad = [
        "not JSON",
        noise,
        "[]",
        json.dumps({**good, "version": 99}),
        json.dumps(good),
        json.dumps({**good, "version": 1, "type": "post.exploded"}),
        json.dumps({"version": 1, "type": "post.published", "publisher_id": publisher_name}),
        json.dumps({**good, "version": 1, "ref_id": "a#b"}),
        json.dumps({**good, "version": 1, "body": {"a": "x" * 5000}}),
        json.dumps({"version": 1, "type": "fanout.plan", "fanout_id": "unknown-to-the-ledger"}),
    ]
    for body in bad:
        sqs.send_message(QueueUrl=settings.publish_queue_url, MessageBody=body)
    send(stack, good)
    found: dict[str, str] = {}

    def all_are_dead_letters() -> bool:
        answer = sqs.receive_message(
            QueueUrl=settings.publish_dlq_url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            VisibilityTimeout=60,
        )
        for message in answer.get("Messages", []):
            # Those of ours: other tests count what is left.
            sqs.delete_message(
                QueueUrl=settings.publish_dlq_url, ReceiptHandle=message["ReceiptHandle"]
            )
            reason = message.get("MessageAttributes", {}).get("reason", {}).get("StringValue", "")
            found[message["Body"]] = reason
        return found.keys() >= set(bad)

    eventually(all_are_dead_letters)
    assert found.keys() == set(bad)
    assert all(found[body] for body in bad)
    eventually(lambda: follower.ref_ids() == [ref_id])
