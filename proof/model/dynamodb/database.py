"""All tables, and what each call does: find a table, charge units, expire due items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from proof.model.clock import Clock
from proof.model.dynamodb.capacity import PROVISIONED, Charge, Meter, Reason, throttled
from proof.model.dynamodb.partitions import Key
from proof.model.dynamodb.tables import Hooks, Table, TableSchema
from proof.model.errors import Invalid, Refused


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
    # By token of an idempotent transaction: its request, and when the token is forgotten.
    tokens: dict[str, tuple[Any, float]] = field(default_factory=dict)
    # The tokens of transactions of which some items have not appeared yet, and all their items.
    in_progress: set[str] = field(default_factory=set)
    locked: set[tuple[str, Key]] = field(default_factory=set)

    def create(self, *schemas: TableSchema) -> None:
        for schema in schemas:
            if schema.name in self.tables:
                raise Refused("ResourceInUseException", f"Table already exists: {schema.name}")
            self.tables[schema.name] = Table(schema, self.clock, self.hooks)

    def table(self, name: str) -> Table:
        """A table by name, after due items have expired."""
        table = self.tables.get(name)
        if table is None:
            raise Refused("ResourceNotFoundException", "Requested resource not found")
        if table.ttl is not None:
            table.expire()
        return table

    def charge(self, charges: Sequence[Charge]) -> list[Reason]:
        """Count the charges, or return the reasons of a throttle and count nothing."""
        return self.meter.charge(charges) if self.meter is not None else []

    def pay(self, charges: Sequence[Charge]) -> None:
        if reasons := self.charge(charges):
            raise self.throttled(charges[0].resource.table, reasons)

    def throttled(self, table: str, reasons: Sequence[Reason]) -> Refused:
        return throttled(reasons, key_range_as=self.key_range_as(table))

    def left_over(self, operation: str, tables: Mapping[str, Sequence[Any]]) -> dict[str, set[int]]:
        """The requests of a batch that the hook leaves unprocessed: their numbers by table."""
        hook = self.hooks.unprocessed or (lambda _operation, _table, _count: ())
        return {name: set(hook(operation, name, len(each))) for name, each in tables.items()}


def check_batch(operation: str, tables: Mapping[str, Sequence[Any]], most: int) -> None:
    """Refuse a batch without requests, and one with more than `most`."""
    if not tables or not all(tables.values()):
        raise Invalid.length("requestItems", "greater than or equal to 1")
    if sum(map(len, tables.values())) > most:
        raise Invalid(f"Too many items requested for the {operation} call")
