"""Bad input by real HTTP and real queues: the right status, a helpful sentence, nothing lost.

Each field and its sentence: `tests/integration/test_publish.py`, `tests/unit/test_http.py`. Here is
what API Gateway may change on the way: bytes, paths, parameters, and what is no route.
"""

import base64
import json
import os
import uuid
from collections.abc import Callable

import pytest

from fanfold import contract
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, eventually, send


@pytest.mark.parametrize(
    ("method", "path", "raw", "status", "hint"),
    [
        ("POST", "/v1/posts", b"", 400, "not JSON"),
        ("POST", "/v1/posts", b"\xff\xfe{}", 400, ""),
        ("POST", "/v1/posts", b'{"body":{"a":"\\ud800"}}', 400, "surrogate"),
        ("POST", "/v1/posts", b'{"surprise":1}', 400, "Unknown field 'surprise'"),
        ("POST", "/v1/posts", b'{"body":{"a":"' + b"x" * 20_000 + b'"}}', 413, "than 16384 bytes"),
        ("GET", "/v1/timeline?limit=", None, 400, "'limit' must be a whole number from 1 to 100"),
        ("GET", "/v1/following?limit=\u0663", None, 400, "'limit' must be a whole number"),
        ("GET", "/v1/timeline?befor=x", None, 400, ", ".join(contract.READ_TIMELINE.query)),
        ("GET", "/v1/timeline?before=" + "2" + "A" * 700, None, 400, "take 'next' or 'previous'"),
        ("PUT", "/v1/following/a%23b", None, 400, "'publisher_id'"),
        ("PUT", "/v1/following/%20", None, 400, "'publisher_id'"),
    ],
)
def test_what_breaks_the_contract_gets_a_problem_document(
    make: Callable[[str], User], method: str, path: str, raw: bytes | None, status: int, hint: str
) -> None:
    answer = make("user").call(method, path, raw=raw, content_type="application/json")
    assert (answer.status, answer.kind) == (status, "application/problem+json"), answer
    assert answer.content["status"] == status
    assert answer.content["type"].startswith(f"{contract.PROBLEMS_PAGE}#")
    assert hint in answer.content["detail"]


def test_an_unknown_route_reaches_no_function(make: Callable[[str], User]) -> None:
    """The stage has `cors_origins`, so API Gateway itself answers what is no route."""
    user = make("user")
    for method, path in (("GET", "/v1/nothing"), ("PATCH", "/v1/posts")):
        answer = user.call(method, path)
        assert (answer.status, answer.content) == (404, {"message": "Not Found"})


def test_malformed_messages_become_dead_letters_and_delay_no_others(
    stack: Deployment, make: Callable[[str], User]
) -> None:
    settings, sqs = stack.settings(), stack.client("sqs")
    follower, publisher = make("follower"), make("publisher")
    follower.follow(publisher)
    ref_id = uuid.uuid4().hex
    good = {"type": "post.published", "publisher_id": publisher.name, "ref_id": ref_id}
    # The engine refuses messages over 256 KiB, the reason included; tests on moto send a MiB.
    noise = base64.b64encode(os.urandom(150_000)).decode()
    bad = [
        "not JSON",
        noise,
        json.dumps({**good, "version": 99}),
        json.dumps(good),
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
