"""Throttled calls raise the errors of DynamoDB, and write nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from fanfold.aws.retries import is_transient
from proof.model.clock import Clock
from proof.model.dynamodb.capacity import THROTTLING, Limits, Resource, Throttle
from tests.aws_model.model import KB, Model, note

SMALL = Limits(partitions=1, partition_writes=10, partition_reads=10)


def limited(limits: Limits = SMALL) -> Model:
    return Model(throttle=Throttle(Clock(), limits))


def reasons(error: ClientError) -> list[str]:
    response: Any = error.response
    found = response.get("ThrottlingReasons") or response.get("throttlingReasons")
    return [reason["reason"] for reason in found]


def puts_until_throttled(model: Model, most: int = 200) -> tuple[int, ClientError]:
    for number in range(most):
        try:
            model.put(f"id-{number}")
        except ClientError as error:
            return number, error
    raise AssertionError("never throttled")


def test_a_partition_takes_its_units_more_with_time_and_a_burst_of_what_was_unused() -> None:
    model = limited()
    for seconds, puts in ((0, 10), (0.5, 5), (100, 10)):
        model.clock.advance(seconds)
        assert puts_until_throttled(model)[0] == puts
    burst = limited(Limits(partitions=1, partition_writes=10, burst_seconds=30))
    assert puts_until_throttled(burst, 400)[0] == 300
    model.database.key_range_as = lambda _table: THROTTLING
    _, error = puts_until_throttled(model)
    assert error.response["Error"]["Code"] == THROTTLING
    assert reasons(error) == ["TableWriteKeyRangeThroughputExceeded"]


@pytest.mark.parametrize(
    ("limits", "code", "field", "reason"),
    [
        (
            {"partitions": 1, "partition_writes": 5},
            "ProvisionedThroughputExceededException",
            "ThrottlingReasons",
            "KeyRangeThroughput",
        ),
        ({"quota_writes": 5}, "RequestLimitExceeded", "ThrottlingReasons", "AccountLimit"),
        (
            {"max_write_request_units": 5},
            "ThrottlingException",
            "throttlingReasons",
            "MaxOnDemandThroughput",
        ),
    ],
)
def test_each_limit_has_its_exception_and_reason(
    limits: Mapping[str, Any], code: str, field: str, reason: str
) -> None:
    model = limited(Limits(**limits))
    _, error = puts_until_throttled(model)
    response: Any = error.response
    assert response["Error"]["Code"] == code
    assert [each["reason"] for each in response[field]] == [f"TableWrite{reason}Exceeded"]
    assert response[field][0]["resource"].endswith(":table/notes")
    assert isinstance(error, getattr(model.client.exceptions, code))
    assert is_transient(error)


def test_a_cold_table_takes_4000_writes_a_second_only_when_they_are_spread() -> None:
    model = limited(Limits())
    left = 0
    for batch in range(140):
        puts = [{"PutRequest": {"Item": note(f"{batch}-{number}")}} for number in range(25)]
        answer = model.client.batch_write_item(RequestItems={"notes": puts})
        left += len(answer["UnprocessedItems"].get("notes", []))
    assert left < 25
    hot = limited(Limits())
    assert all(hot.put("one", str(n)) for n in range(1_000))
    with pytest.raises(hot.client.exceptions.ProvisionedThroughputExceededException):
        hot.put("one", "1000")


def test_a_throttled_index_throttles_the_table_and_nothing_is_written() -> None:
    index = Resource("notes", "by_tag")
    model = Model(throttle=Throttle(Clock(), limits={index: SMALL}))
    for number in range(10):
        model.put(f"id-{number}", tag="hot")
    with pytest.raises(ClientError) as caught:
        model.put("id-10", tag="hot")
    assert reasons(caught.value) == ["IndexWriteKeyRangeThroughputExceeded"]
    assert model.get("id-10") is None
    model.put("id-11")
    assert model.meter.of("notes") == 11


def test_a_throttled_batch_writes_a_part_and_returns_the_rest() -> None:
    model = limited()
    puts = [{"PutRequest": {"Item": note(f"id-{number}")}} for number in range(25)]
    answer = model.client.batch_write_item(RequestItems={"notes": puts})
    assert answer["UnprocessedItems"] == {"notes": puts[10:]}
    assert len(model.ids()) == 10
    with pytest.raises(model.client.exceptions.ProvisionedThroughputExceededException):
        model.client.batch_write_item(RequestItems={"notes": puts[10:]})


def test_reads_are_throttled_by_their_own_buckets() -> None:
    model = limited()
    model.put_plain("a", 10 * KB)
    keys = {"id": {"S": "a"}}
    for _ in range(3):
        model.client.get_item(TableName="plain", Key=keys, ConsistentRead=True)
    with pytest.raises(ClientError) as caught:
        model.client.scan(TableName="plain", ConsistentRead=True)
    assert reasons(caught.value) == ["TableReadKeyRangeThroughputExceeded"]
    answer = model.client.batch_get_item(
        RequestItems={"plain": {"Keys": [{"id": {"S": "b"}}, {"id": {"S": "a"}}]}}
    )
    assert answer["UnprocessedKeys"] == {"plain": {"Keys": [keys]}}


def test_a_throttled_transaction_is_cancelled_whole() -> None:
    model = limited()
    puts = [{"Put": {"TableName": "notes", "Item": note(f"id-{n}")}} for n in range(6)]
    with pytest.raises(model.client.exceptions.TransactionCanceledException) as caught:
        model.client.transact_write_items(TransactItems=puts)
    assert {each["Code"] for each in caught.value.response["CancellationReasons"]} == {
        "ThrottlingError"
    }
    assert is_transient(caught.value)
    assert model.ids() == []
