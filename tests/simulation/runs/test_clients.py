"""The simulated clients: bytes on the wire, and calls that fail, are lost or come late."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import ReadTimeoutError
from botocore.retries.standard import RetryContext, StandardRetryConditions

from fanfold import names
from fanfold.aws import boto
from fanfold.aws.connections import DYNAMODB, Ended
from fanfold.aws.items import text
from fanfold.aws.json_protocol import Lost, decode, encode, refusal
from proof.model.errors import Refused, client_error
from proof.simulation.clients import requests
from proof.simulation.faults.faults import BELATED_SECONDS, LATE_SECONDS
from proof.simulation.observed.reached import Reached
from proof.simulation.world.aws_clients import Wires, call
from proof.simulation.world.lambdas import installed
from proof.simulation.world.retries import is_repeated
from proof.simulation.world.world import World

KEY = {"user_id": text("ada"), "sort_key": text("2026-11-20T18:00:00.123Z#post-1")}
TABLE = names.TIMELINES.name


@pytest.fixture
def world() -> Iterator[World]:
    """A run without faults."""
    with installed():
        found = World(1)
        found.faults.rates = dict.fromkeys(found.faults.rates, 0.0)
        yield found


def result_of(world: World, act: Callable[[], Any]) -> Any:
    """Run a client alone, and return its result."""
    results: list[Any] = []
    world.run(lambda each: each.start_client("alone", lambda: results.append(act())))
    return results[0]


def body(**request: Any) -> bytes:
    return encode(request)


def put_of(user: str) -> bytes:
    return body(RequestItems={TABLE: [{"PutRequest": {"Item": {**KEY, "user_id": text(user)}}}]})


def test_calls_end_late_in_any_order_and_are_answered_byte_for_byte_like_dynamodb(
    world: World,
) -> None:
    def act() -> tuple[list[Ended], list[Ended]]:
        wires = Wires(DYNAMODB)
        for number in range(20):
            wires.start("BatchWriteItem", put_of(f"user-{number}"), number)
        nothing_yet, ended = wires.finished(0.0), list[Ended]()
        while len(ended) < 20:
            ended += wires.finished(1.0)
        return nothing_yet, ended

    nothing_yet, ended = result_of(world, act)
    assert nothing_yet == []
    assert {each.result for each in ended} == {b'{"UnprocessedItems":{}}'}
    order = [each.tag for each in ended]
    assert order != sorted(order) == list(range(20))


@pytest.mark.parametrize("fault", ["refused", "unanswered"])
def test_a_call_may_be_lost_or_garbled_before_or_after_its_effect(world: World, fault: str) -> None:
    world.faults.rates[fault] = 1.0

    def act() -> list[bytes | Exception]:
        wires = Wires(DYNAMODB)
        for number in range(60):
            wires.start("BatchWriteItem", put_of(f"user-{number}"), number)
        results: list[bytes | Exception] = []
        while len(results) < 60:
            results += [ended.result for ended in wires.finished(None)]
        return results

    results = result_of(world, act)
    assert any(isinstance(result, Lost) for result in results)
    assert any(isinstance(result, refusal("InternalServerError")) for result in results)
    assert any(isinstance(result, refusal("500")) for result in results)  # a proxy's page
    for garbled in {result for result in results if isinstance(result, bytes)} | {b""}:
        with pytest.raises(Lost):
            decode("BatchWriteItem", garbled)
    assert len(world.rows(names.TIMELINES)) == (60 if fault == "unanswered" else 0)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("TransactionCanceledException", 400),
        ("TransactionConflictException", 400),
        ("ValidationException", 400),
        ("ThrottlingException", 400),
        ("RequestLimitExceeded", 400),
        ("InternalServerError", 500),
    ],
)
def test_a_client_repeats_what_botocore_repeats(code: str, status: int) -> None:
    more = {"CancellationReasons": [{"Code": "TransactionConflict"}]} if "Cancel" in code else {}
    error = client_error("dynamodb", "UpdateItem", Refused(code, "Refused.", more, status=status))
    service = boto.dynamodb().meta.service_model
    context = RetryContext(
        attempt_number=1,
        operation_model=service.operation_model("TransactWriteItems"),
        parsed_response=error.response,
        http_response=AWSResponse("http://localhost", status, HTTPHeaders(), None),
    )
    assert is_repeated(error) is StandardRetryConditions().is_retryable(context)


@pytest.mark.parametrize(("fault", "receives"), [("uninvoked", 2), ("late", 1)])
def test_a_message_comes_though_its_mapping_or_queue_is_late(
    world: World, fault: str, receives: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A throttled invocation counts as received; a late delivery takes hours."""
    begun: list[tuple[float, list[int]]] = []

    def begin(_reached: Reached, _queue: object, messages: Any, _task: object) -> None:
        counts = [int(each["Attributes"]["ApproximateReceiveCount"]) for each in messages]
        begun.append((world.scheduler.now, counts))

    monkeypatch.setattr(Reached, "begun", begin)
    world.faults.rates[fault] = 1.0

    def send() -> None:
        requests.send(world, {"version": 1, "type": "nonsense"})
        world.scheduler.sleep(1.0)
        world.faults.rates[fault] = 0.0

    world.run(lambda each: each.start_client("sends", send))
    (at, counts) = begun[0]
    assert counts == [receives]
    assert at >= (LATE_SECONDS[0] if fault == "late" else names.PUBLISH.visibility_seconds)


def test_a_write_that_timed_out_may_land_later(world: World) -> None:
    world.faults.rates["belated"] = 1.0

    def act() -> list[int]:
        with pytest.raises(ReadTimeoutError):
            call("dynamodb", "put_item", {"TableName": TABLE, "Item": KEY})
        before = len(world.rows(names.TIMELINES))
        world.scheduler.sleep(BELATED_SECONDS)
        return [before, len(world.rows(names.TIMELINES))]

    assert result_of(world, act) == [0, 1]
