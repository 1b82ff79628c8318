"""How the programs spell calls: plain Python values in, what boto3 is called with out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fanfold import names

Request = dict[str, Any]
Call = tuple[str, Request]


@dataclass(frozen=True)
class Program:
    """Calls in order; the name is a sentence that says what they find out."""

    name: str
    calls: tuple[Call, ...]

    def __str__(self) -> str:
        """The sentence."""
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
        case frozenset() | set():
            kind, values = _set(value)
            return {kind: values}
        case Raw(content):
            return content
    raise TypeError(value)


@dataclass(frozen=True)
class Raw:
    """A value that is spelled out, right or wrong."""

    content: dict[str, Any]


def _set(value: frozenset[Any] | set[Any]) -> tuple[str, list[Any]]:
    members = sorted(value)
    match members[0]:
        case str():
            return "SS", members
        case bytes():
            return "BS", members
    return "NS", [str(member) for member in members]


def item(values: Mapping[str, Any]) -> dict[str, Any]:
    """An item or a key."""
    return {name: wire(value) for name, value in values.items()}


def _filled(more: Request) -> Request:
    """The common short forms: `names`, `values`, `condition`, `old`, `start`, `project`."""
    short = {
        "names": "ExpressionAttributeNames",
        "condition": "ConditionExpression",
        "project": "ProjectionExpression",
        "only": "FilterExpression",
        "limit": "Limit",
        "index": "IndexName",
        "consistent": "ConsistentRead",
        "returns": "ReturnValues",
        "forward": "ScanIndexForward",
        "select": "Select",
    }
    request: Request = {}
    for name, value in more.items():
        if name == "values":
            request["ExpressionAttributeValues"] = item(value)
        elif name == "start":
            request["ExclusiveStartKey"] = item(value)
        elif name == "old":
            request["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        else:
            request[short.get(name, name)] = value
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


# A table with numbers for sort keys, and one with bytes; the product has neither.
MEASURES = {
    "TableName": "Measures",
    "KeySchema": [
        {"AttributeName": "station", "KeyType": "HASH"},
        {"AttributeName": "at", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "station", "AttributeType": "S"},
        {"AttributeName": "at", "AttributeType": "N"},
        {"AttributeName": "heat", "AttributeType": "N"},
    ],
    "GlobalSecondaryIndexes": [
        {
            "IndexName": "by_heat",
            "KeySchema": [
                {"AttributeName": "station", "KeyType": "HASH"},
                {"AttributeName": "heat", "KeyType": "RANGE"},
            ],
            "Projection": {"ProjectionType": "ALL"},
        }
    ],
    "BillingMode": "PAY_PER_REQUEST",
}
BLOBS = {
    "TableName": "Blobs",
    "KeySchema": [
        {"AttributeName": "part", "KeyType": "HASH"},
        {"AttributeName": "digest", "KeyType": "RANGE"},
    ],
    "AttributeDefinitions": [
        {"AttributeName": "part", "AttributeType": "S"},
        {"AttributeName": "digest", "AttributeType": "B"},
    ],
    "BillingMode": "PAY_PER_REQUEST",
}


def creation_of(table: names.Table) -> Request:
    """What CreateTable is called with for one of the product's tables."""

    def schema(partition: str, sort: str | None) -> list[Request]:
        found = [{"AttributeName": partition, "KeyType": "HASH"}]
        return [*found, {"AttributeName": sort, "KeyType": "RANGE"}] if sort else found

    indexes = [
        {
            "IndexName": index.name,
            "KeySchema": schema(index.partition_key, index.sort_key),
            "Projection": {"ProjectionType": "KEYS_ONLY"},
        }
        for index in table.indexes
    ]
    keyed: list[names.Table | names.Index] = [table, *table.indexes]
    keys = {name for each in keyed for name in (each.partition_key, each.sort_key) if name}
    request: Request = {
        "TableName": table.name,
        "KeySchema": schema(table.partition_key, table.sort_key),
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": "S"} for name in sorted(keys)
        ],
        "BillingMode": "PAY_PER_REQUEST",
    }
    return {**request, "GlobalSecondaryIndexes": indexes} if indexes else request


CREATIONS = {
    **{table.name: creation_of(table) for table in names.TABLES},
    "Measures": MEASURES,
    "Blobs": BLOBS,
}
