"""DynamoDB behind the interface of a boto3 client."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from botocore.loaders import Loader
from botocore.paginate import Paginator, PaginatorModel

from proof.model import client, errors
from proof.model.client import Answer, Request
from proof.model.dynamodb import reads, transactions, writes
from proof.model.dynamodb.database import Database
from proof.model.dynamodb.tables import IndexSchema, KeySchema, TableSchema
from proof.model.errors import Invalid

SERVICE = "dynamodb"


def create_table(database: Database, request: Request) -> Answer:
    """The table is active immediately."""
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
    return {"TableDescription": _description(database, request)}


def _key_schema(wire: list[dict[str, str]], types: dict[str, str]) -> KeySchema:
    names = [each["AttributeName"] for each in wire]
    if undefined := set(names) - types.keys():
        raise Invalid(f"Some index key attributes are not defined: {sorted(undefined)}")
    return KeySchema(
        names[0], names[1] if len(names) > 1 else None, {name: types[name] for name in names}
    )


def _description(database: Database, request: Request) -> Answer:
    table = database.table(request["TableName"])
    return {
        "TableName": table.schema.name,
        "TableArn": table.resource.arn,
        "TableStatus": "ACTIVE",
        "ItemCount": sum(len(partition.rows) for partition in table.space.partitions.values()),
    }


def update_time_to_live(database: Database, request: Request) -> Answer:
    """Existing items expire only after they are written again."""
    wanted = request["TimeToLiveSpecification"]
    table = database.table(request["TableName"])
    table.ttl = wanted["AttributeName"] if wanted["Enabled"] else None
    return {"TimeToLiveSpecification": dict(wanted)}


class Client(client.Client):
    """A client on a database, which any number of clients may share."""

    service = SERVICE
    operations: ClassVar = {
        "PutItem": writes.put_item,
        "UpdateItem": writes.update_item,
        "DeleteItem": writes.delete_item,
        "BatchWriteItem": writes.batch_write_item,
        "TransactWriteItems": transactions.transact_write_items,
        "GetItem": reads.get_item,
        "BatchGetItem": reads.batch_get_item,
        "Query": reads.query,
        "Scan": reads.scan,
        "CreateTable": create_table,
        "DescribeTable": lambda database, request: {"Table": _description(database, request)},
        "ListTables": lambda database, _request: {"TableNames": sorted(database.tables)},
        "UpdateTimeToLive": update_time_to_live,
    }

    def get_paginator(self, operation_name: str) -> Paginator[Any]:
        """Botocore's own paginator, over this client's method."""
        name = {"scan": "Scan", "query": "Query"}[operation_name]
        model = errors.service_model(SERVICE).operation_model(name)
        return Paginator(getattr(self, operation_name), _paginators().get_paginator(name), model)


@cache
def _paginators() -> PaginatorModel:
    return PaginatorModel(Loader().load_service_model(SERVICE, "paginators-1"))
