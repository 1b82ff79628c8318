"""The hooks of a simulation, and what holds whatever they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proof.model.dynamodb.tables import Hooks
from tests.aws_model.model import Model, note


def test_an_eventual_read_sees_what_was_and_a_consistent_one_what_is() -> None:
    model = Model(Hooks(read_lag=lambda _table: 1.0))
    model.put("a", "1", n=1)
    model.put("a", "2")
    model.clock.advance(5)
    model.put("a", "1", n=2)
    model.put("a", "3")
    model.client.delete_item(TableName="notes", Key=note("a", "2"))
    assert model.get("a", consistent=False) == note("a", n=1)
    assert model.get("a") == note("a", n=2)
    for consistent, places in ((False, ["1", "2"]), (True, ["1", "3"])):
        items = model.query("a", ConsistentRead=consistent)["Items"]
        assert [item["at"]["S"] for item in items] == places
        assert len(model.ids(ConsistentRead=consistent)) == 2
    model.clock.advance(1)
    assert model.get("a", "2", consistent=False) is None


def test_changes_reach_an_index_after_their_lags_and_in_order() -> None:
    lags = iter([3.0, 1.0, 1.0])
    model = Model(Hooks(index_lag=lambda _table, _index: next(lags)))
    model.put("a", tag="t")
    model.client.update_item(TableName="notes", Key=note("a"), UpdateExpression="REMOVE tag")
    for _ in range(2):
        model.clock.advance(2)
        assert model.ids("by_tag") == []
    model.put("b", tag="t")
    assert model.ids("by_tag") == []
    model.clock.advance(1)
    assert model.ids("by_tag") == ["b"]


def test_an_expired_item_stays_until_the_delay_is_over_and_its_deletion_is_free() -> None:
    # A read that lags behind by seconds does not see what was deleted hours ago.
    model = Model(Hooks(ttl_delay=lambda _table: 100, read_lag=lambda _table: 5.0))
    model.put("a", tag="t", expires_at=int(model.clock.now) + 10)
    model.put("b", expires_at=str(int(model.clock.now) + 10))
    model.put("c", expires_at=int(model.clock.now) + 10)
    model.clock.advance(50)
    assert model.ids() == ["a", "b", "c"]
    model.put("c", expires_at=int(model.clock.now) + 1_000)
    written = model.meter.of("notes")
    model.clock.advance(700)
    assert model.ids() == ["b", "c"]
    assert model.ids("by_tag") == []
    assert model.meter.of("notes") == written


def test_an_expired_item_is_read_held_to_conditions_and_updated_until_it_is_deleted() -> None:
    """DynamoDB's guide: it may still be in reads, and be updated, until the deletion."""
    model = Model(Hooks(ttl_delay=lambda _table: 100))
    for name in "ab":
        model.put(name, expires_at=int(model.clock.now) + 10)
    model.clock.advance(60)
    with pytest.raises(model.client.exceptions.ConditionalCheckFailedException):
        model.client.put_item(
            TableName="notes", Item=note("a"), ConditionExpression="attribute_not_exists(id)"
        )
    model.client.update_item(
        TableName="notes",
        Key=note("b"),
        UpdateExpression="SET expires_at = :later",
        ExpressionAttributeValues={":later": {"N": str(int(model.clock.now) + 1_000)}},
    )
    model.clock.advance(60)
    assert model.ids() == ["b"]
    model.put("a")
    model.clock.advance(500)
    assert model.ids() == ["a", "b"], "an old time to live does not delete a new item"


def test_a_hook_leaves_requests_of_a_batch_unprocessed() -> None:
    model = Model(Hooks(unprocessed=lambda operation, _table, count: [count - 1]))
    puts = [{"PutRequest": {"Item": note(name)}} for name in "abc"]
    answer = model.client.batch_write_item(RequestItems={"notes": puts})
    assert answer["UnprocessedItems"] == {"notes": puts[2:]}
    assert model.ids() == ["a", "b"]
    keys = [note("a"), note("b")]
    part = {"Keys": keys, "ConsistentRead": True, "ProjectionExpression": "id"}
    found = model.client.batch_get_item(RequestItems={"notes": part})
    assert found["Responses"] == {"notes": [{"id": {"S": "a"}}]}
    assert found["UnprocessedKeys"] == {"notes": {**part, "Keys": [keys[1]]}}


def test_a_transaction_runs_once_for_each_token_until_the_token_is_forgotten() -> None:
    model = Model()
    add = {
        "TableName": "plain",
        "Key": {"id": {"S": "a"}},
        "UpdateExpression": "ADD n :one",
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
    for _ in range(2):
        model.client.transact_write_items(TransactItems=[{"Update": add}], ClientRequestToken="t")
    other = {**add, "Key": {"id": {"S": "b"}}}
    with pytest.raises(model.client.exceptions.IdempotentParameterMismatchException):
        model.client.transact_write_items(TransactItems=[{"Update": other}], ClientRequestToken="t")
    model.clock.advance(601)
    model.client.transact_write_items(TransactItems=[{"Update": add}], ClientRequestToken="t")
    found = model.client.get_item(TableName="plain", Key={"id": {"S": "a"}})
    assert found["Item"]["n"] == {"N": "2"}


def test_the_items_of_a_transaction_appear_one_by_one_and_are_locked_until_all_have() -> None:
    steps: list[Callable[[], None]] = []
    model = Model(Hooks(appear=steps.extend))
    puts: Any = [{"Put": {"TableName": "notes", "Item": note(each, n=1)}} for each in "ab"]
    model.client.transact_write_items(TransactItems=puts, ClientRequestToken="t")
    steps[1]()
    assert model.ids(ConsistentRead=True) == ["b"]
    for each in "ab":
        with pytest.raises(model.client.exceptions.TransactionConflictException):
            model.put(each, n=2)
    batch = {"notes": [{"PutRequest": {"Item": note("a", n=2)}}]}
    assert model.client.batch_write_item(RequestItems=batch)["UnprocessedItems"] == batch
    with pytest.raises(model.client.exceptions.TransactionCanceledException) as cancelled:
        model.client.transact_write_items(TransactItems=puts, ClientRequestToken="u")
    reasons = cancelled.value.response["CancellationReasons"]
    assert {each["Code"] for each in reasons} == {"TransactionConflict"}
    with pytest.raises(model.client.exceptions.TransactionInProgressException):
        model.client.transact_write_items(TransactItems=puts, ClientRequestToken="t")
    steps[0]()
    model.client.transact_write_items(TransactItems=puts, ClientRequestToken="t")
    model.put("a", n=2)
    assert [model.get(each) for each in "ab"] == [note("a", n=2), note("b", n=1)]
