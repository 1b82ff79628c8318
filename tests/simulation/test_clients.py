"""The simulated clients: bytes on the wire, and calls that fail, are lost or come late."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from botocore.exceptions import (
    ClientError,
    ConnectionError,
    HTTPClientError,
    ReadTimeoutError,
)
from botocore.retries.standard import RetryContext, StandardRetryConditions

from fanfold import names
from fanfold.aws import answers, boto
from fanfold.aws.answers import Lost
from fanfold.aws.connections import DYNAMODB, Ended
from fanfold.aws.items import text
from proof.model.errors import Refused, client_error
from proof.simulation.clients import requests
from proof.simulation.faults.faults import APART_SECONDS, BELATED_SECONDS, LATE_SECONDS, MOST_COPIES
from proof.simulation.observed.reached import Reached
from proof.simulation.world.aws_clients import BotoClient, Wires, call
from proof.simulation.world.lambdas import installed, queue_url
from proof.simulation.world.retries import is_repeated
from proof.simulation.world.scheduler import Crash
from proof.simulation.world.world import World
from tests.simulation.spoilings import calm

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
    return answers.encode(request)


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


def test_forgotten_calls_have_no_result_and_may_have_an_effect_which_is_observed(
    world: World,
) -> None:
    def act() -> list[Ended]:
        wires = Wires(DYNAMODB)
        for number in range(20):
            wires.start("BatchWriteItem", put_of(f"user-{number}"), number)
        wires.forget()
        return wires.finished(1.0)

    assert result_of(world, act) == []
    written = {(r["user_id"]["S"], r["sort_key"]["S"]) for r in world.rows(names.TIMELINES)}
    assert 0 < len(written) < 20
    assert world.observer.entered_ms.keys() == written


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
    assert any(isinstance(result, answers.refusal("InternalServerError")) for result in results)
    assert any(isinstance(result, answers.refusal("500")) for result in results)  # a proxy's page
    for garbled in {result for result in results if isinstance(result, bytes)} | {b""}:
        with pytest.raises(Lost):
            answers.decode("BatchWriteItem", garbled)
    assert len(world.rows(names.TIMELINES)) == (60 if fault == "unanswered" else 0)


@pytest.mark.parametrize("code", ["TransactionConflict", "ConditionalCheckFailed"])
def test_a_cancelled_transaction_is_left_to_its_caller(world: World, code: str) -> None:
    world.faults.rates["conflict"] = float(code == "TransactionConflict")
    where = {"ConditionExpression": "attribute_exists(user_id)"}

    def act() -> list[Any]:
        client = BotoClient("dynamodb", 3)
        with pytest.raises(client.exceptions.TransactionCanceledException) as cancelled:
            client.transact_write_items(
                TransactItems=[{"Put": {"TableName": TABLE, "Item": KEY, **where}}]
            )
        return [each["Code"] for each in cancelled.value.response["CancellationReasons"]]

    assert result_of(world, act) == [code]
    tries = [line for line in world.trace if "dynamodb.transact_write_items" in line]
    assert len(tries) == 1


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


def test_a_transaction_that_is_done_conflicts_with_nobody(world: World) -> None:
    """DynamoDB answers the repeat of a token without touching the items."""
    put: Any = {"Put": {"TableName": TABLE, "Item": KEY}}

    def act() -> Any:
        def transact(token: str) -> None:
            request = {"TransactItems": [put], "ClientRequestToken": token}
            call("dynamodb", "transact_write_items", request)

        transact("once")
        world.faults.rates["conflict"] = 1.0
        transact("once")
        with pytest.raises(ClientError, match="Transaction cancelled"):
            transact("twice")

    result_of(world, act)


def test_a_transaction_goes_on_after_its_caller_has_died(world: World) -> None:
    """Readers see its items one by one meanwhile."""
    keys = [{**KEY, "user_id": text(user)} for user in ("ada", "bob")]
    puts: Any = [{"Put": {"TableName": TABLE, "Item": key}} for key in keys]
    world.faults.rates["apart"] = 1.0
    counts: list[int] = []

    def act() -> None:
        request = {"TransactItems": puts, "ClientRequestToken": "once"}
        at = world.scheduler.now
        world.scheduler.current.deadline = at + APART_SECONDS[0] / 2
        with pytest.raises(Crash):
            call("dynamodb", "transact_write_items", request)

    def look() -> None:
        while len(world.rows(names.TIMELINES)) < 2:
            counts.append(len(world.rows(names.TIMELINES)))
            world.scheduler.sleep(APART_SECONDS[0] / 5)

    def start(each: World) -> None:
        each.start_client("dies", act)
        each.start_client("looks", look)

    world.run(start)
    assert 1 in counts


def test_a_batch_that_is_applied_in_part_is_answered_with_an_error(world: World) -> None:
    puts = [{"PutRequest": {"Item": {**KEY, "user_id": text(f"u{each}")}}} for each in range(20)]
    world.faults.rates["halfway"] = 1.0

    def act() -> int:
        with pytest.raises((ClientError, HTTPClientError, ConnectionError)):
            call("dynamodb", "batch_write_item", {"RequestItems": {TABLE: puts}})
        return len(world.rows(names.TIMELINES))

    assert 0 < result_of(world, act) < 20


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


def test_an_order_that_fails_for_hours_leaves_few_copies() -> None:
    world, url = calm(), queue_url(names.RELATION)
    world.faults.rates["duplicated"] = 1.0
    world.sqs.send_message(QueueUrl=url, MessageBody="{}")
    queue = world.queues.queue(url)
    for copies in range(1, MOST_COPIES + 10):
        while not queue.waiting():
            world.clock.advance(names.RELATION.visibility_seconds)
        world.sqs.receive_message(QueueUrl=url)
        assert len(queue.messages()) == 1 + min(copies, MOST_COPIES)
