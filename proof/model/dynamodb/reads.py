"""GetItem, BatchGetItem, Query and Scan. Source: the API reference of each operation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from proof.model.client import Answer, Request
from proof.model.dynamodb.capacity import (
    READ,
    Charge,
    Resource,
    consumed,
    consumed_by_table,
    read_units,
)
from proof.model.dynamodb.database import Database, check_batch
from proof.model.dynamodb.expressions.evaluation import Expressions, Values, holds, project
from proof.model.dynamodb.expressions.key_conditions import read_key_condition, refuse_keys
from proof.model.dynamodb.expressions.syntax import Condition, Path
from proof.model.dynamodb.partitions import Key, Range, Row, Space, hash_of
from proof.model.dynamodb.tables import ALL, Index, KeySchema, Table, check_key
from proof.model.dynamodb.values import Item, item_from_wire, item_to_wire
from proof.model.errors import Invalid

MAX_BATCH_GETS = 100
# A page ends with the item that reaches this.
MAX_PAGE_BYTES = 1024 * 1024
MAX_BATCH_BYTES = 16 * 1024 * 1024


def get_item(database: Database, request: Request) -> Answer:
    table = database.table(request["TableName"])
    paths = _projection(request)
    key = table.checked_key(item_from_wire(request["Key"]))
    row, charge = _get(table, key, request)
    database.pay([charge])
    answer: Answer = {} if row is None else {"Item": _shown(row.item, paths)}
    return answer | consumed(request, [charge])


def batch_get_item(database: Database, request: Request) -> Answer:
    """Read up to 100 items, in any order; some may be left unprocessed."""
    parts = request["RequestItems"]
    keys = {name: part["Keys"] for name, part in parts.items()}
    check_batch("BatchGetItem", keys, MAX_BATCH_GETS)
    wanted = list(_read_batch(database, parts))
    skipped = database.left_over("BatchGetItem", keys)
    charges: list[Charge] = []
    reasons = []
    size = 0
    found: dict[str, list[Any]] = {name: [] for name in parts}
    left: dict[str, Any] = {}
    for table, number, key, paths in wanted:
        name = table.schema.name
        row, charge = _get(table, key, parts[name])
        is_left = number in skipped[name] or size + (row.size if row else 0) > MAX_BATCH_BYTES
        refused = [] if is_left else database.charge([charge])
        if is_left or refused:
            reasons += refused
            rest = left.setdefault(name, {**parts[name], "Keys": []})
            rest["Keys"].append(keys[name][number])
            continue
        charges.append(charge)
        if row is not None:
            size += row.size
            found[name].append(_shown(row.item, paths))
    if reasons and not charges:
        raise database.throttled(next(iter(parts)), reasons)
    if database.hooks.shuffle is not None:
        for items in found.values():
            database.hooks.shuffle(items)
    answer: Answer = {"Responses": found, "UnprocessedKeys": left}
    return answer | consumed_by_table(request, charges)


def _read_batch(
    database: Database, parts: dict[str, Request]
) -> Iterator[tuple[Table, int, Key, tuple[Path, ...] | None]]:
    """The keys, each with its table, its number among the table's keys, and the projection."""
    for name, part in parts.items():
        table = database.table(name)
        paths = _projection(part)
        keys = [table.checked_key(item_from_wire(key)) for key in part["Keys"]]
        if len(set(keys)) < len(keys):
            raise Invalid("Provided list of item keys contains duplicates")
        yield from ((table, number, key, paths) for number, key in enumerate(keys))


def _projection(request: Request) -> tuple[Path, ...] | None:
    expressions = Expressions.of(request)
    paths = expressions.projection(request.get("ProjectionExpression"))
    expressions.check()
    return paths


def _get(table: Table, key: Key, request: Request) -> tuple[Row | None, Charge]:
    consistent = bool(request.get("ConsistentRead"))
    row = table.partition(key.partition, table.moment(consistent=consistent)).rows.get(key.place)
    units = read_units(row.size if row else 0, consistent=consistent)
    return row, Charge(table.resource, READ, key.partition, units)


@dataclass
class Source:
    """What a query or scan reads: a table, or an index, which may lag."""

    table: Table
    index: Index | None
    space: Space
    key: KeySchema
    consistent: bool

    @staticmethod
    def of(database: Database, request: Request) -> Source:
        table = database.table(request["TableName"])
        consistent = bool(request.get("ConsistentRead"))
        name = request.get("IndexName")
        if name is None:
            return Source(table, None, table.space, table.schema.key, consistent)
        index = table.indexes.get(name)
        if index is None:
            raise Invalid(f"The table does not have the specified index: {name}")
        if consistent:
            raise Invalid("Consistent reads are not supported on global secondary indexes")
        space = index.catch_up(database.clock.now)
        return Source(table, index, space, index.schema.key, consistent)

    @property
    def resource(self) -> Resource:
        name = self.index.schema.name if self.index else None
        return Resource(self.table.schema.name, name)

    @property
    def moment(self) -> float | None:
        """The moment at which the table is read, None for now; an index lags by itself."""
        return None if self.index else self.table.moment(consistent=self.consistent)

    @property
    def key_names(self) -> tuple[str, ...]:
        """The attributes of a start key: those of the index and of the table."""
        return tuple(dict.fromkeys((*self.key.names, *self.table.schema.key.names)))

    def start(self, wire: dict[str, Any] | None) -> Item | None:
        """The key to start behind, which need not exist; raises `Invalid`."""
        if wire is None:
            return None
        item = item_from_wire(wire)
        schemas = (self.key, self.table.schema.key)
        if item.keys() != set(self.key_names) or any(
            item[name][0] != schema.type_of(name) for schema in schemas for name in schema.names
        ):
            raise Invalid("The provided starting key is invalid")
        for schema in schemas:
            check_key(schema, item)
        return item

    def place(self, item: Item) -> Key:
        return self.index.key_of(item) if self.index else self.table.key_of(item)

    def check_select(self, request: Request, paths: Sequence[Path] | None) -> None:
        """Refuse to read attributes that the index does not project."""
        select = request.get("Select")
        if paths is not None and select not in (None, "SPECIFIC_ATTRIBUTES"):
            raise Invalid(f"Cannot specify the ProjectionExpression when choosing to get {select}")
        if self.index is None or self.index.schema.projection == ALL:
            return
        name = self.index.schema.name
        if select == "ALL_ATTRIBUTES":
            raise Invalid.value(
                f"Select type ALL_ATTRIBUTES is not supported for global secondary index {name}"
            )
        projected = {*self.key_names, *self.index.schema.included}
        if missing := {str(path.parts[0]) for path in paths or ()} - projected:
            raise Invalid.value(f"Global secondary index {name} does not project {sorted(missing)}")


def query(database: Database, request: Request) -> Answer:
    """Read a range of one partition, in order, a page at a time."""
    source = Source.of(database, request)
    expressions = Expressions.of(request)
    if request.get("KeyConditionExpression") is None:
        raise Invalid(
            "Either the KeyConditions or KeyConditionExpression parameter must be specified"
        )
    condition = expressions.condition(request["KeyConditionExpression"], "KeyConditionExpression")
    only = expressions.condition(request.get("FilterExpression"), "FilterExpression")
    paths = expressions.projection(request.get("ProjectionExpression"))
    expressions.check()
    assert condition is not None
    partition_key, within = read_key_condition(source.key, condition, expressions.values)
    refuse_keys(source.key, only)
    source.check_select(request, paths)
    start = source.start(request.get("ExclusiveStartKey"))
    forward = bool(request.get("ScanIndexForward", True))
    if start is not None and not (
        start[source.key.partition][1] == partition_key
        and (source.key.sort is None or within.holds(start[source.key.sort][1]))
        # DynamoDB Local does this, and aws/aws-sdk-ruby #2456 reports it of AWS.
        and not _is_end(source, within, start, forward=forward)
    ):
        raise Invalid(
            "The provided starting key is outside query boundaries based on provided conditions"
        )
    after = source.place(start).place if start is not None else None
    moment = source.moment
    partition = source.space.partition(partition_key)
    if moment is not None:
        partition = partition.as_of(moment)
    rows = (row for _, row in partition.walk(within, after=after, forward=forward))
    page = _Page.read(rows, request.get("Limit"), only, expressions.values)
    if page.last is not None and _is_end(source, within, page.last.item, forward=forward):
        page.is_full = False
    return page.answer(database, request, source, partition_key, paths)


def _is_end(source: Source, within: Range, item: Item, *, forward: bool) -> bool:
    """Whether nothing can follow the item; in an index, items may share a key."""
    if source.key.sort is None or source.index is not None:
        return False
    return within.ends_at(item[source.key.sort][1], forward=forward)


def scan(database: Database, request: Request) -> Answer:
    """Read everything, or one segment of it, a page at a time."""
    source = Source.of(database, request)
    expressions = Expressions.of(request)
    only = expressions.condition(request.get("FilterExpression"), "FilterExpression")
    paths = expressions.projection(request.get("ProjectionExpression"))
    expressions.check()
    source.check_select(request, paths)
    segment, segments = request.get("Segment", 0), request.get("TotalSegments", 1)
    if ("Segment" in request) is not ("TotalSegments" in request) or segment >= segments:
        raise Invalid("The Segment parameter is required with, and must be below, TotalSegments")
    start = source.start(request.get("ExclusiveStartKey"))
    after = source.place(start) if start is not None else None
    if after is not None and (hash_of(after.partition) * segments) >> 64 != segment:
        raise Invalid("The provided starting key is invalid: it is of another segment")
    rows = source.space.walk(after=after, segment=segment, segments=segments, moment=source.moment)
    page = _Page.read((row for _, _, row in rows), request.get("Limit"), only, expressions.values)
    first = page.last.item[source.key.partition][1] if page.last else ""
    return page.answer(database, request, source, first, paths)


@dataclass
class _Page:
    items: list[Item]
    scanned: int
    size: int
    last: Row | None
    is_full: bool

    @staticmethod
    def read(
        rows: Iterator[Row], limit: int | None, only: Condition | None, values: Values
    ) -> _Page:
        """Read until the limit, 1 MB or the end, including items that the filter leaves out.

        A page that reaches its limit says that there is more, even after the last item.
        """
        if limit is not None and limit < 1:
            raise Invalid("Limit must be greater than or equal to 1")
        page = _Page([], 0, 0, None, is_full=False)
        for row in rows:
            page.last = row
            page.scanned += 1
            page.size += row.size
            if holds(only, row.item, values):
                page.items.append(row.item)
            if page.scanned == limit or page.size >= MAX_PAGE_BYTES:
                page.is_full = True
                break
        return page

    def answer(
        self,
        database: Database,
        request: Request,
        source: Source,
        partition_key: Any,
        paths: Sequence[Path] | None,
    ) -> Answer:
        """Charge for the page, by the sum of its sizes, and answer it."""
        units = read_units(self.size, consistent=source.consistent)
        charges = [Charge(source.resource, READ, partition_key, units)]
        database.pay(charges)
        answer: Answer = {"Count": len(self.items), "ScannedCount": self.scanned}
        if request.get("Select") != "COUNT":
            answer["Items"] = [_shown(item, paths) for item in self.items]
        if self.is_full and self.last is not None:
            last = self.last.item
            answer["LastEvaluatedKey"] = item_to_wire({n: last[n] for n in source.key_names})
        return answer | consumed(request, charges)


def _shown(item: Item, paths: Iterable[Path] | None) -> dict[str, Any]:
    return item_to_wire(item if paths is None else project(item, paths))
