"""The ledger with its sparse index, and with an index by state in its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from botocore.exceptions import ClientError

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import WRITE, Limits, Meter, Throttle
from aws_model.dynamodb.database import Database
from aws_model.dynamodb.tables import IndexSchema, KeySchema, TableSchema
from fanfold import names, times
from fanfold.aws.retries import is_throttle
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import Fanout
from simulation.schemas import schema_of

# Table and index take 40,000 writes a second each, and 1,000 on each of their partitions.
WARM = Limits.warm(40_000)
# From opening a fan-out to its plan, and from there to its end.
STEP_SECONDS = 1
FOLLOWERS = 100
SPARSE = schema_of(names.FANOUTS)
BY_STATE = replace(SPARSE, indexes=(IndexSchema("by_state", KeySchema("state", "changed_at")),))


@dataclass(frozen=True)
class Written:
    """What became of the ledger's writes; shares are of 1."""

    writes: int
    throttled: int
    table_share: float  # used, of the writes that the table takes
    reasons: Counter[str]

    @property
    def throttled_share(self) -> float:
        return self.throttled / self.writes


class Writing:
    """Fan-outs of one segment at a steady rate; one whose write is throttled is given up."""

    def __init__(self, schema: TableSchema, fanouts_per_second: int) -> None:
        self.rate = fanouts_per_second
        self.clock = Clock()
        self.meter = Meter(Throttle(self.clock, WARM))
        database = Database(self.clock, meter=self.meter)
        database.create(schema)
        client: Any = dynamodb.Client(database, validates=False)
        self.ledger = Ledger(client, schema.name)
        self.going: set[int] = set()
        self.writes = self.throttled = 0

    def run(self, seconds: int) -> Written:
        """Open fan-outs one by one, and plan and complete each `STEP_SECONDS` later."""
        behind = STEP_SECONDS * self.rate
        for number in range(seconds * self.rate):
            self.clock.advance(1 / self.rate)
            self.going.add(number)
            self._step(self._open, number)
            self._step(self._plan, number - behind)
            self._step(self._complete, number - 2 * behind)
        used = self.meter.of(names.FANOUTS.name, WRITE) / seconds
        return Written(self.writes, self.throttled, used / WARM.quota_writes, self.meter.throttled)

    def _step(self, step: Callable[[Fanout, str], object], number: int) -> None:
        if number not in self.going:
            return
        now = times.to_text(self.clock.now_ms())
        fanout = Fanout(
            fanout_id=f"post-{number}",
            publisher_id="ada",
            sort_key=f"2026-11-20T18:00:00.000Z#post-{number}",
            accepted_at=now,
            expires_at=self.clock.now_ms() // 1000 + 86_400,
            segments=1,
        )
        self.writes += 1
        try:
            step(fanout, now)
        except ClientError as error:
            if not is_throttle(error):
                raise
            self.throttled += 1
            self.going.discard(number)

    def _open(self, fanout: Fanout, _now: str) -> bool:
        return self.ledger.open(fanout) is None

    def _plan(self, fanout: Fanout, now: str) -> bool:
        return self.ledger.plan(fanout, segments=1, followers=FOLLOWERS, level=0, now=now)

    def _complete(self, fanout: Fanout, now: str) -> Fanout | None:
        return self.ledger.finish_segment(fanout, 0, written=FOLLOWERS, now=now)
