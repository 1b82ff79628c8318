"""PutItem, UpdateItem, DeleteItem, BatchWriteItem and TransactWriteItems.

Each change is read from its request first, which shows what is wrong with it whatever is stored;
then it is tried against what is stored; then it is paid for; then it is made. Source: the API
reference of each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_model.dynamodb.capacity import TRANSACTIONAL, Charge, consumed
from aws_model.dynamodb.database import Database, expressions
from aws_model.dynamodb.expressions import Values, holds, project
from aws_model.dynamodb.partitions import Row
from aws_model.dynamodb.syntax import Action, Condition
from aws_model.dynamodb.tables import MAX_ITEM_BYTES, Key, Table
from aws_model.dynamodb.updates import apply, check_update
from aws_model.dynamodb.values import Item, item_from_wire, item_to_wire, size_of_item
from aws_model.errors import Invalid, Refused

MAX_BATCH_WRITES = 25
MAX_TRANSACTION = 100
MAX_TRANSACTION_BYTES = 4 * 1024 * 1024
TOKEN_SECONDS = 10 * 60

Answer = dict[str, Any]


@dataclass
class Change:
    """One change of one item, read from a request; `attempt` finds what would become of it."""

    table: Table
    key: Key
    image: Callable[[Item | None], Row | None]
    condition: Condition | None = None
    values: Values = field(default_factory=dict)
    answers_old: bool = False  # when the condition fails
    checks_only: bool = False
    old: Row | None = None
    new: Row | None = None
    passes: bool = False

    def attempt(self) -> None:
        """Look at the item, test the condition, and make the new image; may raise `Invalid`."""
        self.old = self.table.get(self.key)
        old = self.old.item if self.old else None
        self.passes = holds(self.condition, old or {}, self.values)
        self.new = self.image(old) if self.passes else self.old

    @property
    def charges(self) -> list[Charge]:
        """What it consumes; a failed condition as much as writing the item that is there."""
        if not self.passes or self.checks_only:
            return self.table.charges(self.key, self.old, self.old)
        return self.table.charges(self.key, self.old, self.new)

    @property
    def found(self) -> dict[str, Any]:
        """The item that failed the condition, where the request asks for it."""
        if not self.answers_old or self.old is None:
            return {}
        return {"Item": item_to_wire(self.old.item)}

    def make(self) -> None:
        """Change what is stored."""
        if not self.checks_only and (self.new is not None or self.old is not None):
            self.table.change(self.key, self.new)


def read_put(database: Database, request: dict[str, Any]) -> Change:
    """A put, with its item checked."""
    table = database.table(request["TableName"])
    placeholders = expressions(request)
    condition = placeholders.condition(request.get("ConditionExpression"))
    placeholders.check(any_expression=condition is not None)
    item = item_from_wire(request["Item"])
    row = Row(item, table.check_item(item))
    return Change(
        table,
        table.key_of(item),
        lambda _old: row,
        condition,
        placeholders.values,
        request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD",
    )


def read_delete(
    database: Database, request: dict[str, Any], *, checks_only: bool = False
) -> Change:
    """A delete, or the check of a condition alone."""
    table = database.table(request["TableName"])
    placeholders = expressions(request)
    condition = placeholders.condition(request.get("ConditionExpression"))
    placeholders.check(any_expression=condition is not None)
    key = table.checked_key(item_from_wire(request["Key"]))
    return Change(
        table,
        key,
        lambda _old: None,
        condition,
        placeholders.values,
        request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD",
        checks_only,
    )


def read_update(database: Database, request: dict[str, Any]) -> tuple[Change, tuple[Action, ...]]:
    """An update and its actions; without an item it begins with the key alone."""
    table = database.table(request["TableName"])
    placeholders = expressions(request)
    actions = placeholders.update(request.get("UpdateExpression"))
    condition = placeholders.condition(request.get("ConditionExpression"))
    placeholders.check(any_expression=bool(actions) or condition is not None)
    values = placeholders.values
    check_update(actions, values, table.schema.key.names)
    key_item = item_from_wire(request["Key"])
    key = table.checked_key(key_item)

    def image(old: Item | None) -> Row:
        new = apply(actions, old if old is not None else key_item, values)
        size = size_of_item(new)
        if size > MAX_ITEM_BYTES:
            raise Invalid("Item size to update has exceeded the maximum allowed size")
        table.check_index_keys(new)
        return Row(new, size)

    answers_old = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    return Change(table, key, image, condition, values, answers_old), actions


def _carry_out(database: Database, change: Change) -> list[Charge]:
    change.attempt()
    charges = change.charges
    database.pay(charges)
    if not change.passes:
        raise Refused(
            "ConditionalCheckFailedException", "The conditional request failed", change.found
        )
    change.make()
    return charges


def put_item(database: Database, request: dict[str, Any]) -> Answer:
    """Put one item."""
    return _write(database, request, read_put(database, request), "NONE", "ALL_OLD")


def delete_item(database: Database, request: dict[str, Any]) -> Answer:
    """Delete one item; that there is none is no error."""
    return _write(database, request, read_delete(database, request), "NONE", "ALL_OLD")


def _write(database: Database, request: dict[str, Any], change: Change, *allowed: str) -> Answer:
    wish = request.get("ReturnValues", "NONE")
    if wish not in allowed:
        raise Invalid(f"Return values set to invalid value: {wish}")
    charges = _carry_out(database, change)
    answer: Answer = {}
    if wish == "ALL_OLD" and change.old is not None:
        answer["Attributes"] = item_to_wire(change.old.item)
    return answer | _consumed(request, charges)


def update_item(database: Database, request: dict[str, Any]) -> Answer:
    """Update one item, or make it."""
    change, actions = read_update(database, request)
    charges = _carry_out(database, change)
    wish = request.get("ReturnValues", "NONE")
    row = change.new if wish.endswith("_NEW") else change.old
    answer: Answer = {}
    if wish != "NONE" and row is not None:
        item = row.item
        if wish.startswith("UPDATED"):
            item = project(item, [action.path for action in actions])
        if item:
            answer["Attributes"] = item_to_wire(item)
    return answer | _consumed(request, charges)


def batch_write_item(database: Database, request: dict[str, Any]) -> Answer:
    """Up to 25 puts and deletes without conditions; some may be left for another call."""
    changes = _read_batch(database, request)
    charges: list[Charge] = []
    unprocessed: dict[str, list[Any]] = {}
    reasons = []
    skipped = {
        table: set(database.left_over("BatchWriteItem", table, len(requests)))
        for table, requests in request["RequestItems"].items()
    }
    for name, number, change, wire in changes:
        change.attempt()
        refused = [] if number in skipped[name] else database.charge(change.charges)
        if refused or number in skipped[name]:
            reasons += refused
            unprocessed.setdefault(name, []).append(wire)
            continue
        charges += change.charges
        change.make()
    if reasons and not charges:
        raise database.throttled(changes[0][0], list(dict.fromkeys(reasons)))
    answer: Answer = {"UnprocessedItems": unprocessed}
    if found := consumed(charges, request.get("ReturnConsumedCapacity")):
        answer["ConsumedCapacity"] = found
    return answer


def _read_batch(
    database: Database, request: dict[str, Any]
) -> list[tuple[str, int, Change, dict[str, Any]]]:
    tables = request["RequestItems"]
    count = sum(len(requests) for requests in tables.values())
    if not tables or not all(tables.values()):
        raise Invalid(
            "1 validation error detected: Value at 'requestItems' failed to satisfy constraint: "
            "Member must have length greater than or equal to 1"
        )
    if count > MAX_BATCH_WRITES:
        raise Invalid("Too many items requested for the BatchWriteItem call")
    changes = []
    for name, requests in tables.items():
        keys: set[Key] = set()
        for number, wire in enumerate(requests):
            if len(wire) != 1:
                raise Invalid(
                    "Supplied AttributeValue has more than one datatypes set, must contain exactly "
                    "one of the supported datatypes"
                )
            if "PutRequest" in wire:
                change = read_put(database, {"TableName": name, **wire["PutRequest"]})
            else:
                change = read_delete(database, {"TableName": name, **wire["DeleteRequest"]})
            if change.key in keys:
                raise Invalid("Provided list of item keys contains duplicates")
            keys.add(change.key)
            changes.append((name, number, change, wire))
    return changes


READERS: dict[str, Callable[[Database, dict[str, Any]], Change]] = {
    "Put": read_put,
    "Update": lambda database, request: read_update(database, request)[0],
    "Delete": read_delete,
    "ConditionCheck": lambda database, request: read_delete(database, request, checks_only=True),
}


def transact_write_items(database: Database, request: dict[str, Any]) -> Answer:
    """Up to 100 changes of distinct items, all or none."""
    token = request.get("ClientRequestToken")
    if token and _was_done(database, token, request["TransactItems"]):
        return {}
    changes = _read_transaction(database, request["TransactItems"])
    reasons: list[dict[str, Any]] = []
    for change in changes:
        try:
            change.attempt()
        except Invalid as invalid:
            reasons.append({"Code": "ValidationError", "Message": invalid.message})
            continue
        if change.passes:
            reasons.append({"Code": "None"})
        else:
            message = "The conditional request failed"
            reasons.append({"Code": "ConditionalCheckFailed", "Message": message, **change.found})
    charges = [
        charge._replace(units=charge.units * TRANSACTIONAL)
        if charge.resource.index_name is None
        else charge
        for change in changes
        for charge in change.charges
    ]
    if throttles := database.charge(charges):
        tables = {reason.resource for reason in throttles}
        for change, reason in zip(changes, reasons, strict=True):
            if any(arn.startswith(change.table.resource.arn) for arn in tables):
                reason.update(Code="ThrottlingError", Message="Throughput exceeds the capacity.")
    codes = [reason["Code"] for reason in reasons]
    if set(codes) != {"None"}:
        raise Refused(
            "TransactionCanceledException",
            "Transaction cancelled, please refer cancellation reasons for specific reasons "
            f"[{', '.join(codes)}]",
            {"CancellationReasons": reasons},
        )
    for change in changes:
        change.make()
    if token:
        until = database.clock.now + TOKEN_SECONDS
        database.tokens[token] = (request["TransactItems"], until)
    found = consumed(charges, request.get("ReturnConsumedCapacity"))
    return {"ConsumedCapacity": found} if found else {}


def _was_done(database: Database, token: str, actions: Sequence[Any]) -> bool:
    known = database.tokens.get(token)
    if known is None or known[1] < database.clock.now:
        return False
    if known[0] != actions:
        raise Refused(
            "IdempotentParameterMismatchException",
            "The client request token was used with other parameters",
        )
    return True


def _read_transaction(database: Database, actions: Sequence[dict[str, Any]]) -> list[Change]:
    if not 1 <= len(actions) <= MAX_TRANSACTION:
        raise Invalid(
            "1 validation error detected: Value at 'transactItems' failed to satisfy constraint: "
            f"Member must have length between 1 and {MAX_TRANSACTION}"
        )
    changes = []
    seen: set[tuple[str, Key]] = set()
    for action in actions:
        if len(action) != 1:
            raise Invalid("TransactItems can only contain one of Check, Put, Update or Delete")
        ((verb, request),) = action.items()
        change = READERS[verb](database, request)
        place = (change.table.schema.name, change.key)
        if place in seen:
            raise Invalid("Transaction request cannot include multiple operations on one item")
        seen.add(place)
        changes.append(change)
    return changes


def _consumed(request: dict[str, Any], charges: Sequence[Charge]) -> Answer:
    found = consumed(charges, request.get("ReturnConsumedCapacity"))
    return {"ConsumedCapacity": found[0]} if found else {}
