"""Counts capacity units exactly, and limits them; both are optional.

Sources: "DynamoDB read and write operations", "Global secondary indexes: provisioned throughput
considerations", "Burst and adaptive capacity", "On-demand capacity mode", "Quotas" of the Developer
Guide; the reasons of throttling from "DynamoDB throttling resolution guide".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from proof.model.clock import Clock
from proof.model.dynamodb.partitions import Entry, Row, hash_of
from proof.model.errors import Refused

WRITE_UNIT_BYTES = 1024
READ_UNIT_BYTES = 4096
READ, WRITE = "Read", "Write"


def write_units(*sizes: int) -> int:
    """Units of a write, by the larger of the item's sizes before and after; at least one."""
    return max(1, -(-max(sizes, default=0) // WRITE_UNIT_BYTES))


def read_units(size: int, *, consistent: bool) -> float:
    """Units of one read of `size` bytes; at least one, even if nothing is found."""
    units = max(1, -(-size // READ_UNIT_BYTES))
    return units if consistent else units / 2


def index_writes(before: Entry | None, after: Entry | None) -> list[tuple[Row, int]]:
    """What a changed entry writes to its index: rows and units.

    An entry whose key changes is deleted and put, which are two writes.
    """
    if before is not None and after is not None and before.key == after.key:
        return [(after.row, write_units(before.row.size, after.row.size))]
    rows = [entry.row for entry in (before, after) if entry is not None]
    return [(row, write_units(row.size)) for row in rows]


class Resource(NamedTuple):
    """A table, or an index of it."""

    table: str
    index_name: str | None = None

    @property
    def arn(self) -> str:
        arn = f"arn:aws:dynamodb:eu-central-1:123456789012:table/{self.table}"
        return arn if self.index_name is None else f"{arn}/index/{self.index_name}"


class Charge(NamedTuple):
    """Units that a request takes from one partition key of a resource."""

    resource: Resource
    kind: str
    partition_key: Any
    units: float


class Reason(NamedTuple):
    """Why a request was throttled, as in `ThrottlingReasons`."""

    reason: str
    resource: str


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Units that a table or an index takes in a second.

    A cold on-demand table takes 4,000 writes and 12,000 reads because it has four partitions, so
    it needs no limit of its own; a warm one has more `partitions`. `burst_seconds` is how long
    unused capacity is kept: up to 300 s of a *provisioned* share, but a partition never exceeds
    its own maximum, so the default is one second.
    """

    partitions: int = 4
    partition_writes: float = 1_000
    partition_reads: float = 3_000
    quota_writes: float = 40_000
    quota_reads: float = 40_000
    max_write_request_units: float | None = None
    max_read_request_units: float | None = None
    burst_seconds: float = 1.0

    @staticmethod
    def warm(write_units_per_second: int, read_units_per_second: int = 0) -> Limits:
        """The limits of a table with this warm throughput."""
        partitions = max(4, -(-write_units_per_second // 1_000), -(-read_units_per_second // 3_000))
        return Limits(partitions=partitions)


@dataclass
class Bucket:
    """A token bucket; if it is full, it admits even a request larger than itself."""

    rate: float
    capacity: float
    tokens: float
    at: float

    def admits(self, units: float, now: float) -> bool:
        self.tokens = min(self.capacity, self.tokens + (now - self.at) * self.rate)
        self.at = now
        # Allows for rounding errors of the refill.
        return self.tokens + 1e-6 >= min(units, self.capacity)

    def take(self, units: float) -> None:
        """Take tokens; after a large request the bucket is in debt."""
        self.tokens -= units


@dataclass
class Throttle:
    """Token buckets of every resource: its partitions, the quota, and the maximum if one is set.

    A resource without `limits` has the `default`. `locate(resource, key, partitions)` is the number
    of a key's partition; without it, partitions share the hashes evenly, so keys have neighbours.
    """

    clock: Clock
    default: Limits = field(default_factory=Limits)
    limits: Mapping[Resource, Limits] = field(default_factory=dict)
    locate: Callable[[Resource, Any, int], int] | None = None
    _buckets: dict[tuple[Resource, str, str, int], Bucket] = field(default_factory=dict)

    def admit(self, charges: Sequence[Charge]) -> list[Reason]:
        """Take all charges, or none and return the reasons."""
        now = self.clock.monotonic()
        taken: list[tuple[Bucket, float]] = []
        reasons: list[Reason] = []
        for charge in charges:
            for limit, bucket in self._of(charge, now):
                if bucket.admits(charge.units, now):
                    bucket.take(charge.units)
                    taken.append((bucket, charge.units))
                else:
                    kind = "Table" if charge.resource.index_name is None else "Index"
                    reasons.append(
                        Reason(f"{kind}{charge.kind}{limit}Exceeded", charge.resource.arn)
                    )
        if reasons:
            for bucket, units in taken:
                bucket.tokens += units
        return list(dict.fromkeys(reasons))

    def _of(self, charge: Charge, now: float) -> Iterable[tuple[str, Bucket]]:
        limits = self.limits.get(charge.resource, self.default)
        writes = charge.kind == WRITE
        most = limits.max_write_request_units if writes else limits.max_read_request_units
        quota = limits.quota_writes if writes else limits.quota_reads
        rate = limits.partition_writes if writes else limits.partition_reads
        if self.locate is None:
            number = (hash_of(charge.partition_key) * limits.partitions) >> 64
        else:
            number = self.locate(charge.resource, charge.partition_key, limits.partitions)
        buckets = (("MaxOnDemandThroughput", 0, most), ("AccountLimit", 0, quota))
        for limit, which, units in (*buckets, ("KeyRangeThroughput", number, rate)):
            if units is not None:
                key = (charge.resource, charge.kind, limit, which)
                yield limit, self._bucket(key, units, limits.burst_seconds, now)

    def _bucket(
        self, key: tuple[Resource, str, str, int], rate: float, seconds: float, now: float
    ) -> Bucket:
        bucket = self._buckets.get(key)
        if bucket is None or bucket.rate != rate:
            bucket = self._buckets[key] = Bucket(rate, rate * seconds, rate * seconds, now)
        return bucket


@dataclass
class Meter:
    """Units consumed by resource and kind; a throttle may refuse them."""

    throttle: Throttle | None = None
    units: Counter[tuple[Resource, str]] = field(default_factory=Counter)
    throttled: Counter[str] = field(default_factory=Counter)

    def charge(self, charges: Sequence[Charge]) -> list[Reason]:
        """Count the charges, or return the reasons of a throttle and count nothing."""
        if self.throttle is not None and (reasons := self.throttle.admit(charges)):
            self.throttled.update(reason.reason for reason in reasons)
            return reasons
        for charge in charges:
            self.units[charge.resource, charge.kind] += charge.units  # type: ignore[assignment]
        return []

    def of(self, table: str, kind: str = WRITE, index: str | None = None) -> float:
        return self.units[Resource(table, index), kind]


PROVISIONED = "ProvisionedThroughputExceededException"
THROTTLING = "ThrottlingException"
QUOTA = "RequestLimitExceeded"


def throttled(reasons: Sequence[Reason], *, key_range_as: str = PROVISIONED) -> Refused:
    """The error of a throttled call.

    The maximum of an on-demand table and the quota have their own exceptions; a key range has one
    of two, chosen by `key_range_as`.
    """
    limits = {reason.reason for reason in reasons}
    if any("KeyRange" in limit for limit in limits):
        code = key_range_as
    elif any("AccountLimit" in limit for limit in limits):
        code = QUOTA
    else:
        code = THROTTLING
    name = "throttlingReasons" if code == THROTTLING else "ThrottlingReasons"
    message = "Throughput exceeds the current capacity of your table or index."
    return Refused(code, message, {name: [reason._asdict() for reason in dict.fromkeys(reasons)]})


def consumed(request: Mapping[str, Any], charges: Iterable[Charge]) -> dict[str, Any]:
    """The consumed capacity that an answer about one table contains if requested."""
    tables = consumed_by_table(request, charges)
    return {"ConsumedCapacity": tables["ConsumedCapacity"][0]} if tables else {}


def consumed_by_table(request: Mapping[str, Any], charges: Iterable[Charge]) -> dict[str, Any]:
    """The same for an answer about several tables, as a list."""
    wanted = request.get("ReturnConsumedCapacity")
    if wanted not in ("TOTAL", "INDEXES"):
        return {}
    sums: dict[str, Counter[str | None]] = {}
    for charge in charges:
        table = sums.setdefault(charge.resource.table, Counter())
        table[charge.resource.index_name] += charge.units  # type: ignore[assignment]
    answers = []
    for name, parts in sums.items():
        answer: dict[str, Any] = {"TableName": name, "CapacityUnits": float(sum(parts.values()))}
        if wanted == "INDEXES":
            answer["Table"] = {"CapacityUnits": float(parts.pop(None, 0))}
            if parts:
                answer["GlobalSecondaryIndexes"] = {
                    str(index): {"CapacityUnits": float(units)} for index, units in parts.items()
                }
        answers.append(answer)
    return {"ConsumedCapacity": answers} if answers else {}
