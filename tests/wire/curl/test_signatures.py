"""Signatures: botocore computes the same ones from the requests as they arrived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fanfold.aws.connections import DYNAMODB, SQS, Connections
from fanfold.aws.curl import Client
from fanfold.follows import ring
from fanfold.follows.ring_reader import Read
from tests.wire.conftest import REGION, Certificates, environment
from tests.wire.deliveries import batch, make, transport
from tests.wire.server import Server, reply
from tests.wire.signatures import Signer, signed_headers

pytestmark = pytest.mark.network
KEY = "ASIAIOSFODNN7EXAMPLE"
SECRET = "a/secret+with=signs"
# As long as the token of a Lambda role, with every character that may occur in one.
TOKEN = "IQoJb3JpZ2luX2VjE/+=" * 50
ODD = ['"', "\\", "\t\n\x00\x7f", "grüße", "\N{GRINNING FACE}", "x" * 900, "a b&c=d?e#f/../%20"]
SIGNED = {"content-type", "host", "x-amz-date", "x-amz-target"}


def speak(env: dict[str, str]) -> None:
    """Make every kind of call, with plain and odd values."""
    tables = Connections(DYNAMODB, env)
    users = [*ODD, *(f"user-{number}" for number in range(200))]
    batches = [batch(n, *users[n : n + 25]) for n in range(0, len(users), 25)]
    make(transport(tables), Read(0, 0, ring.START, ring.END), *batches)
    client, queue = Client(tables), Client(Connections(SQS, env))
    for text in ODD:
        key = {"ref_id": {"S": text}}
        client.get_item(TableName="Posts", Key=key)
        client.update_item(TableName="Posts", Key=key, UpdateExpression="SET a = :a")
        client.query(TableName="Posts", ExpressionAttributeValues={":a": key["ref_id"]})
        client.batch_get_item(RequestItems={"Posts": {"Keys": [key]}})
        url = "https://sqs.eu-central-1.amazonaws.com/123456789012/Express"
        queue.send_message(QueueUrl=url, MessageBody=text)
        queue.send_message_batch(QueueUrl=url, Entries=[{"Id": "0", "MessageBody": text}])


@pytest.fixture(params=["http", "https"])
def capturing(request: Any, serve: Callable[..., Server], tls: Certificates) -> Server:
    """A server with and without TLS, which records requests."""
    context = tls.context if request.param == "https" else None
    return serve(lambda _call: reply({"Items": []}), context=context)


@pytest.mark.parametrize("token", ["", TOKEN], ids=["without a token", "with a token"])
def test_every_request_is_signed_and_the_check_notices_a_wrong_secret_or_scope(
    capturing: Server, tls: Certificates, token: str
) -> None:
    env = environment(
        capturing.url,
        AWS_ACCESS_KEY_ID=KEY,
        AWS_SECRET_ACCESS_KEY=SECRET,
        AWS_SESSION_TOKEN=token,
        AWS_CA_BUNDLE=tls.authority,
    )
    speak(env)
    calls = capturing.calls
    assert {call.operation for call in calls} == {
        "BatchGetItem",
        "BatchWriteItem",
        "GetItem",
        "Query",
        "SendMessage",
        "SendMessageBatch",
        "UpdateItem",
    }
    right = Signer(KEY, SECRET, "", REGION)
    assert [call for call in calls if not right.signed_for_its_service(call)] == []
    for wrong in (
        replace(right, secret_key=f"{SECRET}x"),
        replace(right, access_key=f"{KEY}X"),
        replace(right, region="us-east-1"),
    ):
        assert [call for call in calls if wrong.signed_for_its_service(call)] == []
    assert not any(replace(right, service="kms").signed(call) for call in calls)
    changed = (replace(call, body=call.body + b" ") for call in calls)
    assert not any(right.signed_for_its_service(call) for call in changed)
    for call in calls:
        assert set(signed_headers(call)) == SIGNED | ({"x-amz-security-token"} if token else set())
        assert call.header("x-amz-security-token") == token
        assert call.header("x-amz-content-sha256") == ""
        assert call.header("content-type") == "application/x-amz-json-1.0"
        assert (call.method, call.path) == ("POST", "/")


def test_only_headers_that_aws_needs_are_sent(server: Server) -> None:
    """No `Expect`, which would cost a round trip, and no headers of browsers."""
    Client(Connections(DYNAMODB, environment(server.url))).get_item(Key="x" * 2_000_000)
    (call,) = server.calls
    assert {name.lower() for name, _ in call.headers} == {
        "authorization",
        "content-length",
        "content-type",
        "host",
        "user-agent",
        "x-amz-date",
        "x-amz-target",
    }
