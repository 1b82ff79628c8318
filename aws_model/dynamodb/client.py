"""DynamoDB as a boto3 client shows it: the methods, the answers and the exceptions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from botocore.loaders import Loader
from botocore.paginate import Paginator, PaginatorModel

from aws_model import errors
from aws_model.dynamodb import reads, writes
from aws_model.dynamodb.database import Database
from aws_model.dynamodb.tables import IndexSchema, KeySchema, TableSchema
from aws_model.errors import Invalid, Refused

SERVICE = "dynamodb"
Answer = dict[str, Any]
Operation = Callable[[Database, dict[str, Any]], Answer]


class Client:
    """A DynamoDB client on a database of the model.

    `validates` checks every request's shape as boto3 does: wrong parameters raise
    `ParamValidationError`. Long simulations save its time.
    """

    def __init__(self, database: Database, *, validates: bool = True) -> None:
        self.database = database
        self.validates = validates
        self.exceptions = errors.exceptions(SERVICE)

    def put_item(self, **request: Any) -> Answer:
        """PutItem."""
        return self._call("PutItem", writes.put_item, request)

    def get_item(self, **request: Any) -> Answer:
        """GetItem."""
        return self._call("GetItem", reads.get_item, request)

    def update_item(self, **request: Any) -> Answer:
        """UpdateItem."""
        return self._call("UpdateItem", writes.update_item, request)

    def delete_item(self, **request: Any) -> Answer:
        """DeleteItem."""
        return self._call("DeleteItem", writes.delete_item, request)

    def query(self, **request: Any) -> Answer:
        """Query."""
        return self._call("Query", reads.query, request)

    def scan(self, **request: Any) -> Answer:
        """Scan."""
        return self._call("Scan", reads.scan, request)

    def batch_write_item(self, **request: Any) -> Answer:
        """BatchWriteItem."""
        return self._call("BatchWriteItem", writes.batch_write_item, request)

    def batch_get_item(self, **request: Any) -> Answer:
        """BatchGetItem."""
        return self._call("BatchGetItem", reads.batch_get_item, request)

    def transact_write_items(self, **request: Any) -> Answer:
        """TransactWriteItems."""
        return self._call("TransactWriteItems", writes.transact_write_items, request)

    def create_table(self, **request: Any) -> Answer:
        """CreateTable; the table is there at once."""
        return self._call("CreateTable", _create_table, request)

    def describe_table(self, **request: Any) -> Answer:
        """DescribeTable: the name, the status and the number of items."""
        return self._call("DescribeTable", _describe_table, request)

    def list_tables(self, **request: Any) -> Answer:
        """ListTables, all at once."""
        return self._call(
            "ListTables", lambda database, _: {"TableNames": sorted(database.tables)}, request
        )

    def update_time_to_live(self, **request: Any) -> Answer:
        """UpdateTimeToLive; items that are there already expire only once they are written."""
        return self._call("UpdateTimeToLive", _update_time_to_live, request)

    def get_paginator(self, operation_name: str) -> Paginator[Any]:
        """Botocore's own paginator, over this client's method."""
        name = {"scan": "Scan", "query": "Query"}[operation_name]
        model = errors.service_model(SERVICE).operation_model(name)
        return Paginator(getattr(self, operation_name), _paginators().get_paginator(name), model)

    def call(self, operation: str, request: dict[str, Any]) -> Answer:
        """Any operation by its name on the wire, such as `PutItem`."""
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in operation).lstrip("_")
        answer: Answer = getattr(self, snake)(**request)
        return answer

    def _call(self, name: str, operation: Operation, request: dict[str, Any]) -> Answer:
        if self.validates:
            errors.check_parameters(SERVICE, name, request)
        try:
            answer = operation(self.database, request)
        except Refused as refused:
            raise errors.client_error(SERVICE, name, refused) from None
        answer["ResponseMetadata"] = errors.metadata()
        return answer


@cache
def _paginators() -> PaginatorModel:
    return PaginatorModel(Loader().load_service_model(SERVICE, "paginators-1"))


def _create_table(database: Database, request: dict[str, Any]) -> Answer:
    types = {
        each["AttributeName"]: each["AttributeType"] for each in request["AttributeDefinitions"]
    }
    indexes = tuple(
        IndexSchema(
            index["IndexName"],
            _key_schema(index["KeySchema"], types),
            index["Projection"]["ProjectionType"],
            frozenset(index["Projection"].get("NonKeyAttributes", ())),
        )
        for index in request.get("GlobalSecondaryIndexes", ())
    )
    schema = TableSchema(request["TableName"], _key_schema(request["KeySchema"], types), indexes)
    database.create(schema)
    return _describe_table(database, request, name="TableDescription")


def _key_schema(wire: list[dict[str, str]], types: dict[str, str]) -> KeySchema:
    names = [each["AttributeName"] for each in wire]
    if undefined := set(names) - types.keys():
        raise Invalid(f"Some index key attributes are not defined: {sorted(undefined)}")
    return KeySchema(
        names[0], names[1] if len(names) > 1 else None, {name: types[name] for name in names}
    )


def _describe_table(database: Database, request: dict[str, Any], *, name: str = "Table") -> Answer:
    table = database.table(request["TableName"])
    count = sum(len(partition.rows) for partition in table.space.partitions.values())
    return {
        name: {
            "TableName": table.schema.name,
            "TableArn": table.resource.arn,
            "TableStatus": "ACTIVE",
            "ItemCount": count,
        }
    }


def _update_time_to_live(database: Database, request: dict[str, Any]) -> Answer:
    wish = request["TimeToLiveSpecification"]
    table = database.table(request["TableName"])
    table.ttl = wish["AttributeName"] if wish["Enabled"] else None
    return {"TimeToLiveSpecification": dict(wish)}
