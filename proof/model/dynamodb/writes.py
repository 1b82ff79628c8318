"""PutItem, UpdateItem, DeleteItem and BatchWriteItem.

A change is read from its request, which finds errors that do not depend on stored items. Then it is
tried on the stored item, charged and made. Source: the API reference of each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from proof.model.client import Answer, Request
from proof.model.dynamodb.capacity import Charge, consumed, consumed_by_table
from proof.model.dynamodb.database import Database, check_batch
from proof.model.dynamodb.expressions.evaluation import Expressions, holds, project
from proof.model.dynamodb.expressions.syntax import Action, Condition
from proof.model.dynamodb.expressions.updates import apply, check_update
from proof.model.dynamodb.partitions import Key, Row
from proof.model.dynamodb.tables import MAX_ITEM_BYTES, Table
from proof.model.dynamodb.values import Item, item_from_wire, item_to_wire, size_of_item
from proof.model.errors import Invalid, Refused

MAX_BATCH_WRITES = 25
CONFLICT = "Transaction is ongoing for the item"


@dataclass
class Change:
    """One change of one item, read from a request; `attempt` computes its result.

    `image` makes the new item from the stored one; None deletes it.
    """

    table: Table
    request: Request
    expressions: Expressions
    condition: Condition | None
    key: Key
    image: Callable[[Item | None], Row | None]
    checks_only: bool = False
    old: Row | None = None
    new: Row | None = None
    passes: bool = False

    def attempt(self) -> None:
        """Test the condition on the stored item, and compute the new one; raises `Invalid`."""
        self.old = self.table.get(self.key)
        old = self.old.item if self.old else None
        self.passes = holds(self.condition, old or {}, self.expressions.values)
        self.new = self.image(old) if self.passes else self.old

    def _wanted(self) -> Row | None:
        """The item that a failed condition prevented, if it can be computed."""
        try:
            return self.image(self.old.item if self.old else None)
        except Invalid:
            return self.old

    @property
    def size(self) -> int:
        """The larger size of the item, before or after."""
        return max((row.size for row in (self.old, self.new) if row), default=0)

    @property
    def place(self) -> tuple[str, Key]:
        """The item: its table's name and its key."""
        return self.table.schema.name, self.key

    @property
    def charges(self) -> list[Charge]:
        """What it consumes; a failed condition consumes the larger item, only in the table.

        Source: "Conditional writes and capacity units" of the Developer Guide.
        """
        if self.checks_only:
            return self.table.charges(self.key, self.old, self.old)
        if not self.passes:
            return self.table.charges(self.key, self.old, self._wanted())[:1]
        return self.table.charges(self.key, self.old, self.new)

    @property
    def found(self) -> dict[str, Any]:
        """The item that failed the condition, if the request wants it."""
        wanted = self.request.get("ReturnValuesOnConditionCheckFailure")
        if wanted != "ALL_OLD" or self.old is None:
            return {}
        return {"Item": item_to_wire(self.old.item)}

    def make(self) -> None:
        if not self.checks_only and (self.new is not None or self.old is not None):
            self.table.change(self.key, self.new)


def read_put(database: Database, request: Request) -> Change:
    table, expressions = database.table(request["TableName"]), Expressions.of(request)
    condition = expressions.condition(request.get("ConditionExpression"))
    expressions.check()
    item = item_from_wire(request["Item"])
    row = Row(item, table.check_item(item))
    return Change(table, request, expressions, condition, table.key_of(item), lambda _old: row)


def read_delete(database: Database, request: Request, *, checks_only: bool = False) -> Change:
    """A delete, or only the check of a condition."""
    table, expressions = database.table(request["TableName"]), Expressions.of(request)
    condition = expressions.condition(request.get("ConditionExpression"))
    expressions.check()
    key = table.checked_key(item_from_wire(request["Key"]))
    return Change(table, request, expressions, condition, key, lambda _old: None, checks_only)


def read_update(database: Database, request: Request) -> tuple[Change, tuple[Action, ...]]:
    """An update and its actions; it creates a missing item from its key."""
    table, expressions = database.table(request["TableName"]), Expressions.of(request)
    actions = expressions.update(request.get("UpdateExpression"))
    condition = expressions.condition(request.get("ConditionExpression"))
    expressions.check()
    check_update(actions, expressions.values, table.schema.key.names)
    key_item = item_from_wire(request["Key"])
    key = table.checked_key(key_item)

    def image(old: Item | None) -> Row:
        new = apply(actions, old if old is not None else key_item, expressions.values)
        size = size_of_item(new)
        if size > MAX_ITEM_BYTES:
            raise Invalid("Item size to update has exceeded the maximum allowed size")
        table.check_index_keys(new)
        return Row(new, size)

    return Change(table, request, expressions, condition, key, image), actions


def _run(database: Database, change: Change) -> list[Charge]:
    if change.place in database.locked:
        raise Refused("TransactionConflictException", CONFLICT)
    change.attempt()
    charges = change.charges
    database.pay(charges)
    if not change.passes:
        raise Refused(
            "ConditionalCheckFailedException", "The conditional request failed", change.found
        )
    change.make()
    return charges


def put_item(database: Database, request: Request) -> Answer:
    return _write(database, read_put(database, request))


def delete_item(database: Database, request: Request) -> Answer:
    """Delete one item; a missing one is no error."""
    return _write(database, read_delete(database, request))


def _write(database: Database, change: Change) -> Answer:
    wanted = change.request.get("ReturnValues", "NONE")
    if wanted not in ("NONE", "ALL_OLD"):
        raise Invalid(f"Return values set to invalid value: {wanted}")
    charges = _run(database, change)
    answer: Answer = {}
    if wanted == "ALL_OLD" and change.old is not None:
        answer["Attributes"] = item_to_wire(change.old.item)
    return answer | consumed(change.request, charges)


def update_item(database: Database, request: Request) -> Answer:
    change, actions = read_update(database, request)
    charges = _run(database, change)
    wanted = request.get("ReturnValues", "NONE")
    row = change.new if wanted.endswith("_NEW") else change.old
    answer: Answer = {}
    if wanted != "NONE" and row is not None:
        item = row.item
        if wanted.startswith("UPDATED"):
            item = project(item, [action.path for action in actions])
        if item:
            answer["Attributes"] = item_to_wire(item)
    return answer | consumed(request, charges)


def batch_write_item(database: Database, request: Request) -> Answer:
    """Up to 25 puts and deletes without conditions; some may be left unprocessed."""
    tables = request["RequestItems"]
    check_batch("BatchWriteItem", tables, MAX_BATCH_WRITES)
    changes = list(_read_batch(database, tables))
    skipped = database.left_over("BatchWriteItem", tables)
    charges: list[Charge] = []
    unprocessed: dict[str, list[Any]] = {}
    reasons = []
    for name, number, change in changes:
        change.attempt()
        is_left = number in skipped[name] or change.place in database.locked
        refused = [] if is_left else database.charge(change.charges)
        if refused or is_left:
            reasons += refused
            unprocessed.setdefault(name, []).append(tables[name][number])
            continue
        charges += change.charges
        change.make()
    if reasons and not charges:
        raise database.throttled(next(iter(tables)), reasons)
    return {"UnprocessedItems": unprocessed, **consumed_by_table(request, charges)}


def _read_batch(
    database: Database, tables: dict[str, list[Request]]
) -> Iterator[tuple[str, int, Change]]:
    """The changes, each with its table and its number among the table's requests."""
    for name, requests in tables.items():
        keys: set[Key] = set()
        for number, wire in enumerate(requests):
            if len(wire) != 1:
                raise Invalid(
                    "Supplied AttributeValue has more than one datatypes set, must contain exactly "
                    "one of the supported datatypes"
                )
            ((verb, content),) = wire.items()
            read = read_put if verb == "PutRequest" else read_delete
            change = read(database, {"TableName": name, **content})
            if change.key in keys:
                raise Invalid("Provided list of item keys contains duplicates")
            keys.add(change.key)
            yield name, number, change
