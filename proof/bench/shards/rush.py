"""A rush of follows to one publisher: the product's edges on the capacity model, in virtual time.

Arrivals, containers and the duration of calls are simulated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from botocore import xform_name
from botocore.exceptions import ClientError

from fanfold import names
from fanfold.aws.retries import is_throttle
from fanfold.budgets import Budget
from fanfold.errors import TryLater
from fanfold.follows import ring
from fanfold.follows.edges import Edges
from fanfold.follows.levels import Growing, Levels
from fanfold.follows.ring_reader import RingRead
from fanfold.follows.sharding import NotGrown, Shards
from fanfold.settings import Settings
from proof.model.clock import START_MS, Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import (
    READ,
    WRITE,
    Charge,
    Limits,
    Resource,
    Throttle,
    read_units,
    throttled,
)
from proof.model.dynamodb.database import Database
from proof.model.errors import client_error
from proof.simulation.stage import stores
from proof.simulation.timed.calls import call_seconds
from proof.simulation.timed.model import partition_of
from proof.simulation.timed.system import PUBLISHER
from proof.simulation.timed.tables import FOLLOWER
from proof.simulation.world.scheduler import Scheduler, virtual_time
from proof.simulation.world.schemas import schema_of

# The product counts follows in windows of the wall clock; a rush may begin anywhere in one.
WINDOW_MS = 10_000
# RELATE reconciles a follow after the door's time-out.
RELATE_SECONDS = names.API.seconds
# Containers of RELATE are not throttled, so they learn of a growth late.
RELATE_CONTAINERS = 20


@dataclass(frozen=True, kw_only=True)
class GrowthPlan:
    follows_per_second: int = 10_000
    seconds: int = 55
    containers: int = 100
    warm_write_units: int = 40_000
    static_level: int | None = None
    seed: int = 1


@dataclass
class GrowthCounts:
    """What happened, mostly by the second since the start."""

    offered: Counter[int] = field(default_factory=Counter)
    at_once: Counter[int] = field(default_factory=Counter)  # by the second in which it was offered
    accepted: Counter[int] = field(default_factory=Counter)
    puts: Counter[int] = field(default_factory=Counter)
    throttled: Counter[int] = field(default_factory=Counter)
    given_up: int = 0
    reconciled: int = 0  # by RELATE
    to_retry: int = 0  # of those
    levels: list[tuple[float, int]] = field(default_factory=list)  # when a growth reached which


class GrowthRush:
    def __init__(self, plan: GrowthPlan) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        clock = Clock(START_MS + self.random.randrange(WINDOW_MS))
        self.scheduler = Scheduler(self.random, clock=clock)
        self.counts = GrowthCounts()
        self.acknowledged: set[str] = set()
        self.throttled: set[str] = set()  # followers whose put was throttled at least once
        limits = Limits.warm(plan.warm_write_units)
        self.throttle = Throttle(clock, limits, locate=partial(partition_of, seed=plan.seed))
        database = Database(clock)
        database.create(*(schema_of(each) for each in (names.FOLLOWERS, names.PUBLISHERS)))
        # Validating parameters would take most of the time; the unit tests do it.
        client: Any = dynamodb.Client(database, validates=False)
        self.client = client
        self.publishers = stores(client).publishers
        self.publishers.set_static_level(plan.static_level)
        self._containers = [self._container() for _ in range(plan.containers)]
        self._relate = [self._container() for _ in range(RELATE_CONTAINERS)]
        self._ended = 0
        self._relate_at = 0.0

    def _container(self) -> Edges:
        timed: Any = TimedClient(self)
        return Edges(
            stores(timed).edges,
            Growing(
                Levels(stores(timed).publishers),
                Settings.max_level,
                Settings.growth_cooldown_ms,
                self._count_growth,
            ),
        )

    def _count_growth(self, _publisher_id: str, result: Shards | NotGrown) -> None:
        if isinstance(result, Shards):
            self.counts.levels.append((self.scheduler.now, result.level))

    @property
    def second(self) -> int:
        return int(self.scheduler.now)

    def run(self) -> GrowthCounts:
        """Let all follows arrive and end."""
        with virtual_time(self.scheduler):
            # RELATE's containers know the publisher's level from earlier follows.
            for edges in self._relate:
                self.scheduler.start(partial(edges.levels.to_write, PUBLISHER))
            self.scheduler.at(0.0, partial(self._arrive, 0))
            self.scheduler.run(self._is_over)
        return self.counts

    def _is_over(self) -> bool:
        is_last = self.scheduler.now >= self.plan.seconds
        return is_last and self._ended == self.counts.offered.total()

    def _arrive(self, number: int) -> None:
        """One follow of a Poisson process; schedules the next one."""
        if self.scheduler.now >= self.plan.seconds:
            return
        gap = self.random.expovariate(self.plan.follows_per_second)
        self.scheduler.at(self.scheduler.now + gap, partial(self._arrive, number + 1))
        self.counts.offered[self.second] += 1
        self.scheduler.start(partial(self._follow, FOLLOWER.format(number), self.second))

    def _follow(self, follower: str, came: int) -> None:
        edges = self.random.choice(self._containers)
        try:
            edges.put(PUBLISHER, follower, version=1)
        except TryLater:
            self.counts.given_up += 1
        else:
            self.acknowledged.add(follower)
            self.counts.accepted[self.second] += 1
            self.counts.at_once[came] += follower not in self.throttled
            self._relate_later(follower)
        self._ended += 1

    def _relate_later(self, follower: str) -> None:
        """Have RELATE reconcile a follow, at the pace of its lane."""
        at = max(self.scheduler.now + RELATE_SECONDS, self._relate_at)
        self._relate_at = at + 1 / Budget.of(self.plan.warm_write_units).relation.most
        self.scheduler.at(at, partial(self.scheduler.start, partial(self._reconcile, follower)))

    def _reconcile(self, follower: str) -> None:
        self.counts.reconciled += 1
        try:
            self.random.choice(self._relate).ensure(PUBLISHER, follower, version=1)
        except TryLater:
            self.counts.to_retry += 1

    def found(self) -> Counter[str]:
        """How often a delivery reads each follower; it costs no units."""
        level = self.publishers.shards(PUBLISHER).level
        edges = stores(self.client).edges
        pages = edges.edges(PUBLISHER, RingRead(level, ring.START, ring.END))
        return Counter(ring.follower_of(edge) for page in pages for edge in page)

    def twice(self) -> int:
        """How many edges a delivery drops, because their follower has one at another level."""
        pages = self.client.get_paginator("scan").paginate(TableName=names.FOLLOWERS.name)
        edges: int = sum(page["Count"] for page in pages)
        return edges - self.found().total()

    def lost(self) -> int:
        """Acknowledged followers whom a delivery does not read exactly once."""
        found = self.found()
        return sum(found[follower] != 1 for follower in self.acknowledged)


@dataclass(frozen=True)
class TimedClient:
    """A client whose calls take time, and have their effect at the end of it.

    Throttles are decided before the model parses a request: in a rush most calls are throttled, and
    parsing takes longest. All items are below 1 KB, so each call is one unit.
    """

    rush: GrowthRush

    @property
    def exceptions(self) -> Any:
        return self.rush.client.exceptions

    def put_item(self, **request: Any) -> Any:
        rush, item = self.rush, request["Item"]
        try:
            return self._call("PutItem", request, WRITE, item["shard_id"]["S"], 1)
        except ClientError as error:
            if is_throttle(error):
                rush.counts.throttled[rush.second] += 1
                rush.throttled.add(ring.follower_of(item["edge"]["S"]))
            raise
        finally:
            rush.counts.puts[rush.second] += 1

    def get_item(self, **request: Any) -> Any:
        units = read_units(0, consistent=bool(request.get("ConsistentRead")))
        key = next(iter(request["Key"].values()))["S"]
        return self._call("GetItem", request, READ, key, units)

    def update_item(self, **request: Any) -> Any:
        return self._call("UpdateItem", request, WRITE, request["Key"]["publisher_id"]["S"], 1)

    def _call(
        self, operation: str, request: dict[str, Any], kind: str, key: str, units: float
    ) -> Any:
        self.rush.scheduler.sleep(call_seconds(self.rush.random))
        charge = Charge(Resource(request["TableName"]), kind, key, units)
        if reasons := self.rush.throttle.admit([charge]):
            raise client_error(dynamodb.SERVICE, operation, throttled(reasons))
        return getattr(self.rush.client, xform_name(operation))(**request)
