"""How the programs write calls: plain Python values in, the parameters of boto3 out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from fanfold import names

Request = dict[str, Any]
Call = tuple[str, Request]


@dataclass(frozen=True)
class Program:
    """Calls in order; the name is a sentence about what they show."""

    name: str
    calls: tuple[Call, ...]

    def __str__(self) -> str:
        return self.name


def program(name: str, *calls: Call) -> Program:
    """A program of these calls."""
    return Program(name, calls)


def wire(value: Any) -> dict[str, Any]:
    """A value as the low-level API spells it."""
    match value:
        case bool():
            return {"BOOL": value}
        case None:
            return {"NULL": True}
        case int() | float():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case list():
            return {"L": [wire(each) for each in value]}
        case dict():
            return {"M": item(value)}
        case set():
            members = sorted(value)
            if isinstance(members[0], str):
                return {"SS": members}
            return {"NS": [str(member) for member in members]}
        case Raw(content):
            return content
    raise TypeError(value)


@dataclass(frozen=True)
class Raw:
    """A value that is spelled out, right or wrong."""

    content: dict[str, Any]


def item(values: Mapping[str, Any]) -> dict[str, Any]:
    """An item or a key."""
    return {name: wire(value) for name, value in values.items()}


# What calls name in short, and which of it is spelled as items.
SHORT = {
    "names": "ExpressionAttributeNames",
    "values": "ExpressionAttributeValues",
    "condition": "ConditionExpression",
    "project": "ProjectionExpression",
    "only": "FilterExpression",
    "limit": "Limit",
    "index": "IndexName",
    "consistent": "ConsistentRead",
    "returns": "ReturnValues",
    "forward": "ScanIndexForward",
    "select": "Select",
    "start": "ExclusiveStartKey",
}


def _filled(more: Request) -> Request:
    """The parameters by their whole names; `old` asks for the item that fails a condition."""
    request: Request = {}
    for name, value in more.items():
        if name == "old":
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        else:
            is_item = name in ("values", "start")
            request[SHORT.get(name, name)] = item(value) if is_item else value
    return request


def put(table: str, values: Mapping[str, Any], **more: Any) -> Call:
    return "put_item", {"TableName": table, "Item": item(values), **_filled(more)}


def get(table: str, key: Mapping[str, Any], **more: Any) -> Call:
    filled = _filled({"consistent": True, **more})
    return "get_item", {"TableName": table, "Key": item(key), **filled}


def delete(table: str, key: Mapping[str, Any], **more: Any) -> Call:
    return "delete_item", {"TableName": table, "Key": item(key), **_filled(more)}


def update(table: str, key: Mapping[str, Any], expression: str | None, **more: Any) -> Call:
    filled = _filled({"returns": "ALL_NEW", **more})
    if expression is not None:
        filled["UpdateExpression"] = expression
    return "update_item", {"TableName": table, "Key": item(key), **filled}


def query(table: str, condition: str, **more: Any) -> Call:
    return "query", {"TableName": table, "KeyConditionExpression": condition, **_filled(more)}


def scan(table: str, **more: Any) -> Call:
    return "scan", {"TableName": table, **_filled(more)}


def batch_put(table: str, *items: Mapping[str, Any]) -> Call:
    requests = [{"PutRequest": {"Item": item(each)}} for each in items]
    return "batch_write_item", {"RequestItems": {table: requests}}


def batch_delete(table: str, *keys: Mapping[str, Any]) -> Call:
    requests = [{"DeleteRequest": {"Key": item(each)}} for each in keys]
    return "batch_write_item", {"RequestItems": {table: requests}}


def batch(*parts: Call) -> Call:
    """Several batches of writes as one."""
    tables: Request = {}
    for _, request in parts:
        for table, wishes in request["RequestItems"].items():
            tables.setdefault(table, []).extend(wishes)
    return "batch_write_item", {"RequestItems": tables}


def batch_get(table: str, *keys: Mapping[str, Any], **more: Any) -> Call:
    part = {"Keys": [item(key) for key in keys], **_filled(more)}
    return "batch_get_item", {"RequestItems": {table: part}}


def transact(*actions: Call) -> Call:
    """A transaction of puts, updates, deletes and checks."""
    verbs = {"put_item": "Put", "update_item": "Update", "delete_item": "Delete"}
    wired = []
    for operation, request in actions:
        plain = {name: value for name, value in request.items() if name != "ReturnValues"}
        wired.append({verbs.get(operation, operation): plain})
    return "transact_write_items", {"TransactItems": wired}


def check(table: str, key: Mapping[str, Any], condition: str, **more: Any) -> Call:
    """A condition alone, within a transaction."""
    request = {"TableName": table, "Key": item(key), "ConditionExpression": condition}
    return "ConditionCheck", {**request, **_filled(more)}


def creation(table: names.Table) -> Request:
    """What CreateTable is called with for one of the product's tables, whose keys are text."""
    indexes = {index.name: _key(index) for index in table.indexes}
    request: Request = {
        "TableName": table.name,
        "KeySchema": _key_schema(_key(table)),
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": "S"}
            for name in sorted({*_key(table), *chain(*indexes.values())})
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }
    if indexes:
        request["GlobalSecondaryIndexes"] = [
            {
                "IndexName": name,
                "KeySchema": _key_schema(index),
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
            for name, index in indexes.items()
        ]
    return request


def _key_schema(key: Sequence[str]) -> list[Request]:
    kinds = zip(key, ("HASH", "RANGE"), strict=False)
    return [{"AttributeName": name, "KeyType": kind} for name, kind in kinds]


def _key(of: names.Table | names.Index) -> list[str]:
    return [name for name in (of.partition_key, of.sort_key) if name]


CREATIONS = {table.name: creation(table) for table in names.TABLES}
