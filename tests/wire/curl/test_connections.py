"""Connections that stay open: how many there are, with which credentials, and what ends them."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from fanfold.aws.connections import DYNAMODB, Connections
from fanfold.aws.curl import Client
from fanfold.aws.retries import AT_A_TIME
from fanfold.fanout.transport.loop import CONNECTIONS
from tests.wire.conftest import REGION, Certificates, environment
from tests.wire.deliveries import WAYS, batch, by_client, by_delivery, call, make, transport
from tests.wire.server import CLOSE, OK, RESET, SILENCE, Call, Reply, Server, refusal, reply
from tests.wire.signatures import Signer

pytestmark = pytest.mark.network
# libcurl notices closed idle connections once a second.
IDLE_SECONDS = 1.2


@pytest.fixture(params=["http", "https"])
def either(request: Any, serve: Callable[..., Server], tls: Certificates) -> Server:
    """A server with or without TLS."""
    return serve(context=tls.context if request.param == "https" else None)


@pytest.fixture
def env(tls: Certificates) -> dict[str, str]:
    return environment("", AWS_CA_BUNDLE=tls.authority)


def connections_to(server: Server, env: dict[str, str]) -> Connections:
    env["AWS_ENDPOINT_URL"] = server.url
    return Connections(DYNAMODB, env)


def all_at_once(count: int) -> Callable[[Call], Reply]:
    """Answer when `count` calls have arrived, so that each of them has its own connection."""
    gate = threading.Barrier(count)

    def answer(_call: Call) -> Reply:
        gate.wait(10)
        return OK

    return answer


def deliver(connections: Connections, count: int) -> None:
    """Deliver `count` batches concurrently."""
    ended = make(transport(connections), *(batch(n, f"user-{n}") for n in range(count)))
    assert not any(call.result for call in ended)  # no errors and no unprocessed users
    assert {each.call.action.batch for each in ended} == set(range(count))  # type: ignore[union-attr]


@pytest.mark.parametrize("count", [2, CONNECTIONS])
def test_concurrent_calls_have_a_connection_each_which_the_next_delivery_reuses(
    either: Server, env: dict[str, str], count: int
) -> None:
    connections = connections_to(either, env)
    either.answer = all_at_once(count)
    for _ in range(3):
        deliver(connections, count)
        assert either.opened == count
    either.answer = lambda _call: OK
    for _ in range(5):
        by_client(connections)
        deliver(connections, count // 2)
    assert either.opened == count


def test_connections_that_the_server_closed_while_idle_are_replaced(
    either: Server, env: dict[str, str]
) -> None:
    connections = connections_to(either, env)
    either.answer = all_at_once(10)
    deliver(connections, 10)
    either.close_connections()
    time.sleep(IDLE_SECONDS)
    either.answer = all_at_once(10)
    deliver(connections, 10)
    assert either.opened == 20
    either.answer = lambda _call: OK
    either.close_connections()
    time.sleep(IDLE_SECONDS)
    assert by_client(connections) == {}


@pytest.mark.parametrize("then", [CLOSE, RESET])
@pytest.mark.parametrize("way", WAYS)
def test_libcurl_repeats_a_call_whose_connection_was_dead(
    server: Server, env: dict[str, str], way: Callable[[Connections], Any], then: str
) -> None:
    """Libcurl cannot know whether the server applied the call, so calls must be idempotent."""
    connections = connections_to(server, env)
    assert not way(connections)
    server.answer_in_turn(Reply(b"", then))
    assert not way(connections)
    assert [call.connection for call in server.calls] == [1, 1, 2]
    assert server.calls[1].body == server.calls[2].body


# Credentials

OLD, NEW = ("ASIAOLD", "old-secret", "old/token="), ("ASIANEW", "new/secret+", "new-token")


def give(env: dict[str, str], credentials: tuple[str, str, str]) -> None:
    names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    env.update(zip(names, credentials, strict=True))


def signed_by(calls: list[Call], credentials: tuple[str, str, str]) -> list[bool]:
    key, secret, token = credentials
    signer = Signer(key, secret, "dynamodb", REGION)
    return [signer.signed(c) and c.header("x-amz-security-token") == token for c in calls]


def test_a_delivery_keeps_its_credentials_and_the_next_has_the_new_ones_without_a_removed_token(
    server: Server, env: dict[str, str]
) -> None:
    give(env, OLD)
    connections = connections_to(server, env)
    server.answer = all_at_once(8)
    deliver(connections, 8)
    server.answer = lambda _call: OK
    with transport(connections).calls() as calls:
        calls.start(call(batch(1, "ada")))
        give(env, NEW)
        calls.start(call(batch(2, "bob")))
        ended: list[Any] = []
        while len(ended) < 2:
            ended += calls.finished(None)
    assert signed_by(server.calls, OLD) == [True] * 10
    deliver(connections, 8)
    by_client(connections)
    assert signed_by(server.calls[10:], NEW) == [True] * 9
    assert server.opened == 8, "no new connections"
    give(env, (*NEW[:2], ""))
    by_client(connections)
    del env["AWS_SESSION_TOKEN"]
    by_delivery(connections)
    assert signed_by(server.calls[19:], (*NEW[:2], "")) == [True, True]


# Waiting and aborting


def two_reads(client: Client) -> list[Any]:
    return client.together(("GetItem", {"TableName": "A"}), ("Query", {"TableName": "B"}))


@pytest.mark.parametrize("lost", ["GetItem", "Query"])
def test_of_calls_together_only_the_one_that_was_lost_is_made_again(
    server: Server, env: dict[str, str], lost: str
) -> None:
    left = [1]

    def answer(call: Call) -> Reply:
        if call.operation == lost and left[0]:
            left[0] -= 1
            return Reply(b"", SILENCE)
        return reply({"Answers": call.operation})

    server.answer = answer
    answers = two_reads(Client(connections_to(server, env)))
    assert answers == [{"Answers": "GetItem"}, {"Answers": "Query"}]
    made = [call.operation for call in server.calls]
    assert sorted(made) == sorted(["GetItem", "Query", lost])


def test_of_many_calls_together_a_bounded_number_is_in_flight_and_answers_keep_their_order(
    server: Server, env: dict[str, str]
) -> None:
    lock, open_calls, most = threading.Lock(), 0, 0

    def answer(call: Call) -> Reply:
        nonlocal open_calls, most
        with lock:
            open_calls += 1
            most = max(most, open_calls)
        time.sleep(0.005)
        with lock:
            open_calls -= 1
        return reply({"Answers": json.loads(call.body)["TableName"]})

    server.answer = answer
    client = Client(connections_to(server, env))
    for _ in range(2):
        answers = client.together(*(("Query", {"TableName": f"{n}"}) for n in range(64)))
        assert answers == [{"Answers": f"{n}"} for n in range(64)]
    assert 1 < most <= server.opened <= AT_A_TIME


@pytest.mark.parametrize("refused", ["GetItem", "Query"])
def test_if_one_of_calls_together_is_refused_for_good_none_is_left_in_flight(
    server: Server, env: dict[str, str], refused: str
) -> None:
    def answer(call: Call) -> Reply:
        if call.operation == refused:
            return refusal("AccessDeniedException")
        return reply({"Answers": call.operation})

    server.answer = answer
    connections = connections_to(server, env)
    client = Client(connections)
    with pytest.raises(Exception, match="AccessDenied"):
        two_reads(client)
    assert len(server.calls) == 2
    assert connections.finished(0) == []
    server.answer = lambda call: reply({"Again": call.operation})
    assert two_reads(client) == [{"Again": "GetItem"}, {"Again": "Query"}]
