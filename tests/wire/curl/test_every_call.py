"""What is special in calls that came with the other functions: transactions, threads, and REST."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from fanfold.aws import retries
from fanfold.aws.connections import DYNAMODB, LAMBDA, Connections, OfThreads
from fanfold.aws.curl import Client
from fanfold.aws.dynamodb import transact
from fanfold.aws.event_sources import EventSourceMappings
from fanfold.aws.json_protocol import refusal
from fanfold.aws.retries import is_throttle, is_transient
from tests.wire.conftest import connections_to, environment
from tests.wire.server import CLOSE, SILENCE, Call, Reply, Server, reply
from tests.wire.server import refusal as refused
from tests.wire.signatures import OURS

pytestmark = pytest.mark.network
ACTIONS: Any = [{"Put": {"TableName": "Posts", "Item": {"ref_id": {"S": "post-1"}}}}]
MAPPING = "5a3e2c1d-0000-4000-8000-000000000001"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "CALL", retries.CALL._replace(backoff_seconds=0.0))


def client_of(server: Server, attempts: int = retries.CALL.attempts) -> Any:
    return Client(connections_to(server), attempts)


def cancelled(*codes: str) -> Reply:
    reasons = [{"Code": code} for code in codes]
    return refused("TransactionCanceledException", CancellationReasons=reasons)


def tokens(server: Server) -> list[str]:
    return [call.content["ClientRequestToken"] for call in server.calls]


# Transactions


def test_a_transaction_has_a_token_of_its_own(server: Server) -> None:
    client = client_of(server)
    for _ in range(3):
        assert transact(client, ACTIONS) == []
    assert len(set(tokens(server))) == 3
    assert all(0 < len(token) <= 36 for token in tokens(server))  # DynamoDB's limit


@pytest.mark.parametrize(
    "bad",
    [
        Reply(b"", CLOSE),
        Reply(b"", SILENCE),
        refused("TransactionInProgressException"),
        cancelled("TransactionConflict", "None"),
    ],
    ids=["unseen", "unanswered", "in progress", "conflict"],
)
def test_a_repeated_transaction_keeps_its_token(server: Server, bad: Reply) -> None:
    client = client_of(server)
    client.get_item()  # opens a connection, which libcurl finds dead
    server.answer_in_turn(bad)
    assert transact(client, ACTIONS) == []
    first, again = tokens(Server("", server.answer, server.calls[1:]))
    assert first == again


@pytest.mark.parametrize(
    "codes", [("ConditionalCheckFailed",), ("TransactionConflict", "ConditionalCheckFailed")]
)
def test_a_transaction_whose_condition_failed_is_left_to_its_caller(
    server: Server, codes: tuple[str, ...]
) -> None:
    server.answer = lambda _call: cancelled(*codes)
    assert transact(client_of(server), ACTIONS) == list(codes)
    assert len(server.calls) == 1


# Threads


def test_each_thread_has_connections_of_its_own_and_keeps_them(server: Server) -> None:
    count = 8
    gate = threading.Barrier(count)
    client: Any = Client(OfThreads(DYNAMODB, environment(server.url)))

    def answer(call: Call) -> Reply:
        gate.wait(10)
        return reply({"Answers": call.content["Number"]})

    server.answer = answer

    def ask(number: int) -> int:
        found: int = client.get_item(Number=number)["Answers"]
        return found

    with ThreadPoolExecutor(count) as threads:
        for _ in range(3):
            assert list(threads.map(ask, range(count))) == list(range(count))
    assert server.opened == count


# Lambda


def mappings(server: Server) -> EventSourceMappings:
    client: Any = Client(Connections(LAMBDA, environment(server.url)))
    return EventSourceMappings(client, {"https://sqs/Bulk": MAPPING})


def test_the_state_of_a_mapping_is_read_by_its_path(server: Server) -> None:
    for state in ("Enabled", "Disabled"):
        server.answer_in_turn(reply({"UUID": MAPPING, "State": state}))
        assert mappings(server).is_paused("https://sqs/Bulk") is (state == "Disabled")
    for call in server.calls:
        assert (call.method, call.body) == ("GET", b"")
        assert call.path == f"/2015-03-31/event-source-mappings/{MAPPING}"
        assert not call.header("x-amz-target")
        assert replace(OURS, service="lambda").signed(call)


@pytest.mark.parametrize(
    ("code", "status", "transient", "throttle"),
    [
        ("TooManyRequestsException", "429 Too Many Requests", True, True),
        ("ServiceException", "500 Internal Server Error", True, False),
        ("ResourceNotFoundException", "404 Not Found", False, False),
        ("AccessDeniedException", "403 Forbidden", False, False),
    ],
)
def test_lambda_names_its_errors_in_a_header(
    server: Server, code: str, status: str, transient: bool, throttle: bool
) -> None:
    kind = {"x-amzn-errortype": f"{code}:http://internal.amazon.com/coral/", "x-amz-crc32": None}
    server.answer = lambda _call: reply({"Message": "No.", "Type": "User"}, status, headers=kind)
    with pytest.raises(refusal(code)) as caught:
        mappings(server).is_paused("https://sqs/Bulk")
    assert is_transient(caught.value) is transient
    assert is_throttle(caught.value) is throttle
    assert "No." in str(caught.value)
    assert len(server.calls) == 1 + transient
