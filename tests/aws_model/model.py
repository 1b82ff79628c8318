"""Small tables and short calls for the tests of the model."""

from __future__ import annotations

from typing import Any

from fanfold.aws.items import number, text
from proof.model.clock import Clock
from proof.model.dynamodb.capacity import Meter, Throttle
from proof.model.dynamodb.client import Client
from proof.model.dynamodb.database import Database
from proof.model.dynamodb.tables import ALL, Hooks, IndexSchema, KeySchema, TableSchema

KB = 1024
NOTES = TableSchema(
    "notes",
    KeySchema("id", "at"),
    (IndexSchema("by_tag", KeySchema("tag")), IndexSchema("everything", KeySchema("label"), ALL)),
    ttl="expires_at",
)
PLAIN = TableSchema("plain", KeySchema("id"))


class Model:
    """A database of two tables, with a clock, a meter and a client."""

    def __init__(self, hooks: Hooks | None = None, throttle: Throttle | None = None) -> None:
        self.clock = throttle.clock if throttle else Clock()
        self.meter = Meter(throttle)
        self.database = Database(self.clock, hooks or Hooks(), self.meter)
        self.database.create(NOTES, PLAIN)
        self.client = Client(self.database)

    def put(self, id: str, at: str = "1", **more: Any) -> dict[str, Any]:
        return self.client.put_item(TableName="notes", Item=note(id, at, **more))

    def get(self, id: str, at: str = "1", *, consistent: bool = True) -> dict[str, Any] | None:
        key = note(id, at)
        answer = self.client.get_item(TableName="notes", Key=key, ConsistentRead=consistent)
        found: dict[str, Any] | None = answer.get("Item")
        return found

    def query(self, id: str, **more: Any) -> dict[str, Any]:
        values = {":id": text(id)}
        return self.client.query(
            TableName="notes",
            KeyConditionExpression="id = :id",
            ExpressionAttributeValues=values,
            **more,
        )

    def put_plain(self, id: str, size: int, **more: Any) -> dict[str, Any]:
        return self.client.put_item(TableName="plain", Item=sized(id, size), **more)

    def ids(self, index: str | None = None, **more: Any) -> list[str]:
        request = {"TableName": "notes", **({"IndexName": index} if index else {}), **more}
        return sorted(item["id"]["S"] for item in self.client.scan(**request)["Items"])


def note(id: str, at: str = "1", **more: Any) -> dict[str, Any]:
    spelled = {n: number(v) if isinstance(v, int) else text(v) for n, v in more.items()}
    return {"id": text(id), "at": text(at), **spelled}


def sized(id: str, size: int) -> dict[str, Any]:
    """An item of `plain` with exactly `size` bytes."""
    return {"id": text(id), "x": text("y" * (size - len("id") - len(id) - len("x")))}
