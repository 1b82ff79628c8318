"""Late, truncated and garbled answers, and refusals: which error they raise, and what follows.

Both the general client and a delivery get each of them; afterwards, the same call succeeds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fanfold.aws import json_protocol, retries
from fanfold.aws.connections import DYNAMODB, Connections
from fanfold.aws.curl import Client
from fanfold.aws.json_protocol import Lost, Refused, refusal
from fanfold.aws.retries import is_throttle, is_transient, throttling_reasons
from tests.wire.conftest import Certificates, certificates, connections_to, environment
from tests.wire.deliveries import WAYS, by_client
from tests.wire.server import (
    CLOSE,
    LOOPBACK,
    OK,
    RESET,
    SILENCE,
    Call,
    Reply,
    Server,
    reply,
    serving,
)
from tests.wire.server import refusal as aws_refusal

pytestmark = pytest.mark.network
HTML = {"Content-Type": "text/html"}

# Unreadable answers: AWS may have applied the call.
GARBLED = {
    "a body shorter than its length": reply(b'{"a":', length=100, then=CLOSE),
    "a close without an answer": Reply(b"", CLOSE),
    "a reset without an answer": Reply(b"", RESET),
    "headers that do not end": Reply(b"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\n", CLOSE),
    "a chunk that does not end": Reply(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{}", CLOSE
    ),
    "another protocol": Reply(b"SSH-2.0-OpenSSH\r\n", CLOSE),
    "a wrong checksum": reply({"a": 1}, headers={"x-amz-crc32": "1"}),
    "a wrong checksum in capitals": reply(headers={"x-amz-crc32": None, "X-AMZ-CRC32": "1"}),
    "a checksum that is no number": reply(headers={"x-amz-crc32": "abc"}),
    "a wrong checksum of an error": reply(
        {"__type": "x#ValidationException"}, "400 Bad Request", headers={"x-amz-crc32": "1"}
    ),
    "an empty body": reply(b""),
    "no JSON": reply(b"<html></html>", headers=HTML),
    "JSON cut short with the right length": reply(b'{"UnprocessedItems": {"Timelines": [{'),
    "JSON that is no object": reply(b"[]"),
    "JSON in no encoding": reply(b'{"a": "\xff"}'),
}
# Errors of the service or of a proxy: the answer, its code, whether it is transient.
REFUSALS = {
    "an error of DynamoDB": (aws_refusal("ValidationException"), "ValidationException", False),
    "a conflict": (
        aws_refusal("TransactionConflictException"),
        "TransactionConflictException",
        True,
    ),
    "a throttle": (
        aws_refusal("ThrottlingException", ThrottlingReasons=[{"reason": "TableWriteMax"}]),
        "ThrottlingException",
        True,
    ),
    "a 500 in JSON": (
        aws_refusal("InternalServerError", "500 Internal Server Error"),
        "InternalServerError",
        True,
    ),
    "a 500 of an unknown kind": (aws_refusal("NeverHeardOf", "500 Oh"), "NeverHeardOf", True),
    "a 502 in HTML": (reply(b"<html>Bad gateway", "502 Bad Gateway", headers=HTML), "502", True),
    "a 403 in HTML": (reply(b"<html>Forbidden", "403 Forbidden", headers=HTML), "403", False),
    "a 400 of other JSON": (reply({"error": "no"}, "400 Bad Request"), "400", False),
    "a 204": (Reply(b"HTTP/1.1 204 No Content\r\n\r\n"), "204", False),
}


def assert_answered(way: Callable[[Connections], Any], connections: Connections) -> None:
    """The same call succeeds on the same connections."""
    assert not way(connections)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("bad", GARBLED.values(), ids=GARBLED.keys())
def test_an_unreadable_answer_is_a_lost_call_without_a_retry(
    server: Server, way: Callable[[Connections], Any], bad: Reply
) -> None:
    connections = connections_to(server)
    server.answer_in_turn(bad)
    with pytest.raises(Lost) as caught:
        way(connections)
    assert is_transient(caught.value)
    assert not is_throttle(caught.value)
    assert len(server.calls) == 1
    assert_answered(way, connections)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("bad", "code", "transient"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_has_the_type_of_its_code_and_no_retry(
    server: Server, way: Callable[[Connections], Any], bad: Reply, code: str, transient: bool
) -> None:
    connections = connections_to(server)
    server.answer_in_turn(bad)
    with pytest.raises(refusal(code)) as caught:
        way(connections)
    error = caught.value
    assert error.response["Error"]["Code"] == code
    status = int(bad.raw.split()[1])
    assert error.response["ResponseMetadata"] == {"HTTPStatusCode": status}
    assert is_transient(error) is transient
    assert is_throttle(error) is (code == "ThrottlingException")
    assert throttling_reasons(error) == ({"TableWriteMax"} if is_throttle(error) else set())
    assert len(server.calls) == 1
    assert_answered(way, connections)


# Time


@pytest.fixture
def short_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time-outs of one second, the shortest that libcurl supports."""
    monkeypatch.setattr(retries, "CONNECT_TIMEOUT_SECONDS", 1)
    monkeypatch.setattr(retries, "READ_TIMEOUT_SECONDS", 1)


@pytest.mark.usefixtures("short_times")
@pytest.mark.parametrize("way", WAYS)
def test_a_late_answer_is_lost_at_the_timeout(
    server: Server, way: Callable[[Connections], Any]
) -> None:
    connections = connections_to(server)

    def half_of_a_body(_call: Call) -> Reply:
        time.sleep(0.8)
        return Reply(b'HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"a":', SILENCE)

    server.answer = half_of_a_body
    for _attempt in range(5):  # a busy machine may be late itself
        server.calls.clear()
        begun = time.monotonic()
        with pytest.raises(Lost) as caught:
            way(connections)
        elapsed = time.monotonic() - begun
        if elapsed < 1.6:
            break
    assert 1.0 <= elapsed < 1.6
    assert is_transient(caught.value)
    assert len(server.calls) == 1
    server.answer = lambda _call: OK
    assert_answered(way, connections)


# Unreachable servers


@pytest.mark.parametrize("way", WAYS)
def test_an_unreachable_server_is_a_lost_call_until_it_listens(
    serve: Callable[..., Server], way: Callable[[Connections], Any]
) -> None:
    with serving() as gone:
        connections = connections_to(gone)
    with pytest.raises(Lost) as caught:
        way(connections)
    assert is_transient(caught.value)
    serve(port=int(gone.url.rpartition(":")[2]))
    assert_answered(way, connections)
    # A label of 64 characters is invalid, so libcurl asks no resolver.
    with pytest.raises(Lost, match="resolve") as caught:
        way(Connections(DYNAMODB, environment(f"http://{'x' * 64}.example")))
    assert is_transient(caught.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wrong", ["authority", "name"])
def test_a_server_without_a_trusted_certificate_gets_no_request(
    serve: Callable[..., Server],
    tls: Certificates,
    tmp_path: Path,
    way: Callable[[Connections], Any],
    wrong: str,
) -> None:
    name = LOOPBACK if wrong == "authority" else "dynamodb.example.org"
    other = certificates(tmp_path, name)
    server = serve(context=other.context)
    trusted = tls.authority if wrong == "authority" else other.authority
    with pytest.raises(Lost) as caught:
        way(connections_to(server, AWS_CA_BUNDLE=trusted))
    assert is_transient(caught.value)
    assert server.calls == []
    assert server.opened == 1


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect"])
def test_a_redirect_is_refused_and_not_followed(
    serve: Callable[..., Server], server: Server, status: str
) -> None:
    other = serve()
    server.answer_in_turn(reply(b"", status, headers={"Location": f"{other.url}/"}))
    connections = connections_to(server)
    with pytest.raises(refusal(status[:3])) as caught:
        by_client(connections)
    assert not is_transient(caught.value)
    assert other.opened == 0
    assert_answered(by_client, connections)


# The content of errors


def test_an_error_has_the_whole_answer_of_the_service(server: Server) -> None:
    item = {"ref_id": {"S": "post-1"}, "text": {"S": "grüße"}}
    server.answer_in_turn(aws_refusal("ConditionalCheckFailedException", Item=item))
    connections = connections_to(server)
    client = Client(connections)
    with pytest.raises(client.exceptions.ConditionalCheckFailedException) as caught:
        client.update_item()
    assert isinstance(caught.value, Refused)
    assert not isinstance(caught.value, client.exceptions.ValidationException)
    assert caught.value.response == {
        "Error": {"Code": "ConditionalCheckFailedException", "Message": "No."},
        "ResponseMetadata": {"HTTPStatusCode": 400},
        "Item": item,
    }
    assert str(caught.value) == "UpdateItem was refused: ConditionalCheckFailedException: No."
    reasons = [{"Code": "ConditionalCheckFailed", "Message": None}]
    server.answer_in_turn(aws_refusal("TransactionCanceledException", CancellationReasons=reasons))
    with pytest.raises(client.exceptions.TransactionCanceledException) as cancelled:
        by_client(connections)
    assert is_transient(cancelled.value), "by its reasons"


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        ({"__type": "com.amazon.coral.service#Slow", "Message": "no"}, "Slow", "no"),
        ({"__type": "com.amazonaws.sqs#QueueDoesNotExist"}, "QueueDoesNotExist", ""),
        ({"__type": "AccessDenied", "message": "Grüße"}, "AccessDenied", "Grüße"),
        ({"__type": "a#B", "message": None}, "B", ""),
        ({"__type": 7, "message": "x"}, "400", ""),
        ({"__type": None}, "400", ""),
    ],
)
def test_an_errors_code_and_message_are_found_in_each_spelling(
    content: Any, code: str, message: str
) -> None:
    error = json_protocol.refused("GetItem", 400, json.dumps(content).encode())
    assert error.response["Error"] == {"Code": code, "Message": message}


@given(
    st.binary()
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ).map(lambda value: json.dumps(value).encode())
)
def test_an_error_without_a_code_has_its_http_status_as_code(body: bytes) -> None:
    error = json_protocol.refused("GetItem", 418, body)
    assert error.response["Error"]["Code"] == "418"
    assert not is_transient(error)


# Attempts


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "CALL", retries.CALL._replace(backoff_seconds=0.0))


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    "bad",
    [
        REFUSALS["a 502 in HTML"][0],
        GARBLED["a close without an answer"],
        aws_refusal("ThrottlingException"),
    ],
    ids=["refused", "lost", "throttled"],
)
def test_the_client_retries_a_transient_error_once(server: Server, bad: Reply) -> None:
    client = Client(connections_to(server))
    server.answer_in_turn(bad, reply({"Item": {}}))
    assert client.get_item(TableName="Posts") == {"Item": {}}
    assert len(server.calls) == 2
    server.close_connections()  # libcurl would repeat a call on a connection that had ended
    client = Client(connections_to(server))
    server.answer_in_turn(bad, bad, OK)
    with pytest.raises((Lost, Refused)) as caught:
        client.get_item(TableName="Posts")
    assert is_transient(caught.value)
    assert len(server.calls) == 4
    server.answer_in_turn(aws_refusal("ValidationException"))
    with pytest.raises(Refused):
        client.get_item(TableName="Posts")
    assert len(server.calls) == 5, "other errors are not retried"
