"""The logs of all functions of the run: they tell what was done, and hold no secret.

The same is asserted once more after all tests (`conftest.engine`), of all that they have logged.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable

import pytest

from fanfold import cursor, names
from fanfold.cursor import Cursor
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, eventually, send
from tests.e2e.logs import assert_no_secrets, lines_of, secrets_in

Make = Callable[[str], User]

READER = "reader-0123abcd"
CURSOR = cursor.encode(Cursor.at("2026-11-20T18:00:00.123Z#post-1"))
POST = "What nobody logs"
LEAKS = {
    "a token": '{"token":"eyJhbGciOiJSUzI1NiJ9.e30.c2ln"}',
    "a header": '{"headers":{"Authorization":"x"}}',
    "a scheme": "Bearer abc",
    "a cursor": f'{{"cursor":"{CURSOR}"}}',
    "a reader": f'{{"message":"A post was planned.","user_id":"{READER}"}}',
    "a list of readers": json.dumps({"missing": ["a", READER]}),
    "a reader in a traceback": f"KeyError: '{READER}'",
    "a post": f'{{"body":"{POST}"}}',
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_line_with_a_secret_is_found(leak: str) -> None:
    assert secrets_in([LEAKS[leak]], readers={READER}, posts={POST}) == [LEAKS[leak]]


def test_a_line_may_name_a_publisher_who_grows_and_ids_of_posts_and_requests() -> None:
    lines = [
        json.dumps({"message": "A publisher has grown.", "publisher_id": READER}),
        json.dumps({"function_request_id": str(uuid.uuid4()), "fanout_id": uuid.uuid4().hex}),
        json.dumps({"queue": "Fanfold-local-FanfoldPublishQueueD8C09048-7F3AB8F48C753"}),
    ]
    assert secrets_in(lines, readers={READER}, posts={POST}) == []


def test_no_function_logs_a_token_a_post_a_cursor_or_a_reader(
    stack: Deployment, make: Make
) -> None:
    publisher, reader = make("loud"), make("silent")
    reader.follow(publisher)
    # Two pages, so that there are cursors.
    posts = [publisher.publish(body={"title": f"{POST} {number}"})["ref_id"] for number in range(2)]
    eventually(lambda: reader.ref_ids() == posts[::-1])
    assert len(list(reader.api.timeline.older(limit=1))) == 2
    for each in (f"?cursor={reader.token}", "?before=no-cursor", f"?{reader.token}=1"):
        assert reader.call("GET", f"/v1/timeline{each}").status == 400
    for raw in (reader.token.encode(), json.dumps({reader.token: 1}).encode()):
        assert reader.call("POST", "/v1/posts", raw=raw).status == 400
    assert reader.call("DELETE", f"/v1/posts/{posts[0]}").status == 404
    relation = {"user_id": reader.name, "publisher_id": publisher.name}
    send(stack, {"type": "follow.added", **relation, reader.token: 1})
    send(stack, {"type": reader.token, **relation})
    at_work = {names.API.name, names.TIMELINE.name, names.PLAN.name}
    eventually(lambda: at_work <= {name for name, lines in lines_of(stack).items() if lines})
    eventually(lambda: _rejections(stack) >= 2)
    _delete_letters_of(stack, reader.name, 2)
    assert_no_secrets(stack)


def _rejections(stack: Deployment) -> int:
    return sum("A message was rejected." in line for line in lines_of(stack)[names.PLAN.name])


def _delete_letters_of(stack: Deployment, user: str, letters: int) -> None:
    """Delete the dead letters of one user's messages: other tests count what is left."""
    sqs, url = stack.client("sqs"), stack.settings().publish_dlq_url
    deleted: set[str] = set()

    def are_deleted() -> bool:
        answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0)
        for letter in answer.get("Messages", []):
            if user in letter["Body"]:
                sqs.delete_message(QueueUrl=url, ReceiptHandle=letter["ReceiptHandle"])
                deleted.add(letter["MessageId"])
        return len(deleted) >= letters

    eventually(are_deleted)
