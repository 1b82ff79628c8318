"""Units are counted like the examples of the Developer Guide."""

from __future__ import annotations

from typing import Any

import pytest

from proof.model.dynamodb.capacity import READ, WRITE, read_units, write_units
from proof.model.dynamodb.values import from_wire, item_from_wire, size_of, size_of_item
from tests.aws_model.model import KB, Model, sized


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "Grüße"}, 7),
        ({"BOOL": True}, 1),
        ({"N": "27"}, 2),
        ({"N": "-27"}, 3),
        ({"N": "1000000"}, 2),
        ({"N": "1.25"}, 3),
        ({"N": "1" * 38}, 20),
        ({"SS": ["a", "bcd"]}, 4),
        ({"NS": ["1", "200"]}, 4),
        ({"L": [{"S": "ab"}, {"N": "7"}]}, 3 + 2 + 2 + 2),
        ({"M": {"key": {"S": "ab"}}}, 3 + 1 + 3 + 2),
    ],
)
def test_a_value_has_the_documented_size(value: dict[str, Any], size: int) -> None:
    assert size_of(from_wire(value)) == size


def test_an_item_counts_its_names_and_a_timeline_entry_is_smaller_than_200_bytes() -> None:
    assert size_of_item(item_from_wire({"id": {"S": "ab"}, "größe": {"N": "7"}})) == 2 + 2 + 7 + 2
    entry = {
        "user_id": {"S": "u" * 36},
        "sort_key": {"S": "2026-11-20T18:00:00.123Z#" + "r" * 32},
        "publisher_id": {"S": "p" * 36},
        "expires_at": {"N": "1900000000"},
    }
    assert size_of_item(item_from_wire(entry)) < 200


@pytest.mark.parametrize(
    ("size", "consistent", "units"),
    [(4 * KB, True, 1), (4 * KB + 1, True, 2), (8 * KB, False, 1), (0, False, 0.5)],
)
def test_reads_are_rounded_up_to_4_kb(size: int, consistent: bool, units: float) -> None:
    assert read_units(size, consistent=consistent) == units


@pytest.mark.parametrize(("sizes", "units"), [((512,), 1), ((KB,), 1), ((KB + 1,), 2), ((0, 0), 1)])
def test_writes_are_rounded_up_to_1_kb(sizes: tuple[int, ...], units: int) -> None:
    assert write_units(*sizes) == units


def test_a_batch_rounds_each_item_and_a_query_their_sum() -> None:
    model = Model()
    puts = [{"PutRequest": {"Item": sized("a", 500)}}, {"PutRequest": {"Item": sized("b", 3584)}}]
    answer = model.client.batch_write_item(
        RequestItems={"plain": puts}, ReturnConsumedCapacity="TOTAL"
    )
    assert answer["ConsumedCapacity"] == [{"TableName": "plain", "CapacityUnits": 5.0}]
    keys = [{"id": {"S": "a"}}, {"id": {"S": "b"}}]
    model.client.batch_get_item(RequestItems={"plain": {"Keys": keys, "ConsistentRead": True}})
    assert model.meter.of("plain", READ) == 2
    model.client.scan(TableName="plain", ConsistentRead=True)
    assert model.meter.of("plain", READ) == 2 + 1


def test_a_write_counts_the_larger_of_what_was_there_and_what_is() -> None:
    model = Model()
    model.put_plain("a", 5 * KB)
    assert model.meter.of("plain") == 5
    model.put_plain("a", 100)
    assert model.meter.of("plain") == 10
    for units in (11, 12):
        model.client.delete_item(TableName="plain", Key={"id": {"S": "a"}})
        assert model.meter.of("plain") == units


@pytest.mark.parametrize(("there", "wanted"), [(5 * KB, 100), (100, 5 * KB)])
def test_a_failed_condition_counts_the_larger_item(there: int, wanted: int) -> None:
    model = Model()
    model.put_plain("a", there)
    units = model.meter.of("plain")
    with pytest.raises(model.client.exceptions.ConditionalCheckFailedException):
        model.put_plain("a", wanted, ConditionExpression="attribute_not_exists(id)")
    assert model.meter.of("plain") == units + 5


def test_a_transaction_counts_every_item_twice_even_a_checked_one() -> None:
    model = Model()
    check = {
        "TableName": "plain",
        "Key": {"id": {"S": "b"}},
        "ConditionExpression": "attribute_not_exists(id)",
    }
    put = {"TableName": "plain", "Item": sized("a", 2 * KB)}
    model.client.transact_write_items(TransactItems=[{"Put": put}, {"ConditionCheck": check}])
    assert model.meter.of("plain") == 4 + 2


@pytest.mark.parametrize(
    ("before", "after", "units"),
    [
        ({}, {"tag": "a"}, 1),
        ({"tag": "a"}, {"tag": "b"}, 2),
        ({"tag": "a"}, {}, 1),
        ({}, {"other": "x"}, 0),
        ({"tag": "a"}, {"tag": "a", "other": "x"}, 0),
    ],
    ids=["comes", "changes its key", "goes", "stays away", "changes what is not projected"],
)
def test_an_index_of_keys_counts_an_entry_that(
    before: dict[str, str], after: dict[str, str], units: int
) -> None:
    model = Model()
    model.put("a", **before)
    counted = model.meter.of("notes", WRITE, "by_tag")
    model.put("a", **after)
    assert model.meter.of("notes", WRITE, "by_tag") - counted == units


def test_an_index_of_everything_counts_every_change_by_its_own_size() -> None:
    model = Model()
    for content, units in (("y" * 3000, 3), ("short", 6), ("short", 6)):
        model.put("a", label="l", x=content)
        assert model.meter.of("notes", WRITE, "everything") == units
