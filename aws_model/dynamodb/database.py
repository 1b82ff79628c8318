"""All tables, and what every call does with them: find one, charge for it, expire what is due."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_model.clock import Clock
from aws_model.dynamodb.capacity import PROVISIONED, Charge, Meter, Reason, throttled
from aws_model.dynamodb.expressions import Expressions
from aws_model.dynamodb.tables import Hooks, Table, TableSchema
from aws_model.dynamodb.values import WireItem, item_from_wire
from aws_model.errors import Refused


@dataclass
class Database:
    """The state behind any number of clients. Without a meter nothing is counted or throttled.

    `key_range_as(table)` names the exception for a throttled key range: DynamoDB knows two.
    """

    clock: Clock
    hooks: Hooks = field(default_factory=Hooks)
    meter: Meter | None = None
    key_range_as: Callable[[str], str] = lambda _table: PROVISIONED
    tables: dict[str, Table] = field(default_factory=dict)
    # Answers of idempotent transactions: token to (request, until).
    tokens: dict[str, tuple[Any, float]] = field(default_factory=dict)

    def create(self, *schemas: TableSchema) -> None:
        """Make empty tables."""
        for schema in schemas:
            if schema.name in self.tables:
                raise Refused("ResourceInUseException", f"Table already exists: {schema.name}")
            self.tables[schema.name] = Table(schema, self.clock, self.hooks)

    def table(self, name: str) -> Table:
        """A table by name, with nothing in it that should have expired."""
        table = self.tables.get(name)
        if table is None:
            raise Refused("ResourceNotFoundException", "Requested resource not found")
        if table.ttl is not None:
            table.expire()
        return table

    def charge(self, charges: Sequence[Charge]) -> list[Reason]:
        """Count; why not, if it is throttled."""
        return self.meter.charge(charges) if self.meter is not None else []

    def pay(self, charges: Sequence[Charge]) -> None:
        """Count, or raise the throttle."""
        if reasons := self.charge(charges):
            raise self.throttled(charges[0].resource.table, reasons)

    def throttled(self, table: str, reasons: Sequence[Reason]) -> Refused:
        """The error of a throttled call."""
        return throttled(reasons, key_range_as=self.key_range_as(table))

    def left_over(self, operation: str, table: str, count: int) -> Iterable[int]:
        """Which requests of a batch the simulation leaves for another call."""
        hook = self.hooks.unprocessed
        return hook(operation, table, count) if hook is not None else ()


def expressions(request: dict[str, Any]) -> Expressions:
    """The placeholders of a request."""
    values: WireItem | None = request.get("ExpressionAttributeValues")
    names = request.get("ExpressionAttributeNames")
    for what, given in (("Names", names), ("Values", values)):
        if given is not None and not given:
            raise Refused("ValidationException", f"ExpressionAttribute{what} must not be empty")
    return Expressions(names, item_from_wire(values) if values else None)
