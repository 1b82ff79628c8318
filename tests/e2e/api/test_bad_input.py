"""Bad input by real HTTP and real queues: the right status, a helpful sentence, nothing lost.

Each field and its sentence: `tests/integration/fanout/test_publish.py` and
`tests/unit/functions/test_http.py`. Here is what API Gateway may change on the way: bytes, paths
and parameters.
"""

import json
import uuid
from collections.abc import Callable

import pytest

from fanfold import contract
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, eventually, send


@pytest.mark.parametrize(
    ("method", "path", "raw", "status", "hint"),
    [
        ("POST", "/v1/posts", b"\xff\xfe{}", 400, ""),
        ("POST", "/v1/posts", b'{"body":{"a":"' + b"x" * 20_000 + b'"}}', 413, "than 16384 bytes"),
        ("GET", "/v1/timeline?limit=", None, 400, "'limit' must be a whole number from 1 to 100"),
        ("GET", "/v1/following?limit=\u0663", None, 400, "'limit' must be a whole number"),
        ("PUT", "/v1/following/a%23b", None, 400, "'publisher_id'"),
    ],
)
def test_what_breaks_the_contract_gets_a_problem_document(
    make: Callable[[str], User], method: str, path: str, raw: bytes | None, status: int, hint: str
) -> None:
    answer = make("user").call(method, path, raw=raw, content_type="application/json")
    assert (answer.status, answer.kind) == (status, "application/problem+json"), answer
    assert answer.content["type"].startswith(f"{contract.PROBLEMS_PAGE}#")
    assert hint in answer.content["detail"]


def test_malformed_messages_become_dead_letters_and_delay_no_others(
    stack: Deployment, make: Callable[[str], User]
) -> None:
    settings, sqs = stack.settings(), stack.client("sqs")
    follower, publisher = make("follower"), make("publisher")
    follower.follow(publisher)
    ref_id = uuid.uuid4().hex
    good = {"type": "post.published", "publisher_id": publisher.name, "ref_id": ref_id}
    bad = {f"not JSON {ref_id}", json.dumps(good)}  # the second has no version
    for body in bad:
        sqs.send_message(QueueUrl=settings.publish_queue_url, MessageBody=body)
    send(stack, good)
    reasons: dict[str, str] = {}

    def all_are_dead_letters() -> bool:
        url = settings.publish_dlq_url
        answer = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
        )
        for message in answer.get("Messages", []):
            # Other tests count what is left.
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            reasons[message["Body"]] = message["MessageAttributes"]["reason"]["StringValue"]
        return reasons.keys() >= bad

    eventually(all_are_dead_letters)
    assert reasons.keys() == bad
    assert all(reasons.values())
    eventually(lambda: follower.ref_ids() == [ref_id])
