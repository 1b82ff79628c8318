"""A rush of follows to one publisher: the product's edges on the capacity model, in virtual time.

Ours are the arrivals, the containers and how long a call takes; the constants say how.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any

from botocore.exceptions import ClientError

from aws_model.clock import START_MS, Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import (
    READ,
    WRITE,
    Charge,
    Limits,
    Resource,
    Throttle,
    read_units,
    throttled,
)
from aws_model.dynamodb.database import Database
from aws_model.errors import client_error
from fanfold import names
from fanfold.budgets import Budget
from fanfold.errors import TryLater
from fanfold.follows import ring
from fanfold.follows.edges import Edges
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.growth import Growing
from fanfold.follows.levels import Levels
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.ring_reader import RingRead
from fanfold.follows.sharding import NotGrown, Shards
from fanfold.settings import Settings
from simulation.schemas import schema_of
from simulation.timed.loop import Loop, installed

# A call to DynamoDB: 5.5 ms on average, log-normal, one in a hundred above 9.5 ms.
CALL_MEDIAN_SECONDS, CALL_SIGMA = 0.0053, 0.25
# Follows are counted in windows of the wall clock; a rush begins anywhere in one.
BEGINNINGS_MS = 10_000
# RELATE looks at a follow again when the door has surely ended.
RELATE_SECONDS = names.API.seconds
# RELATE's containers are its own: nobody throttles them, so they hear of a growth late.
RELATE_CONTAINERS = 20
# Ids as long as those of Cognito.
PUBLISHER = "ada00000-0000-4000-8000-000000000001"
FOLLOWER = "f0110000-0000-4000-8000-{:012d}"
FOLLOWERS, PUBLISHERS = Resource(names.FOLLOWERS.name), Resource(names.PUBLISHERS.name)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A rush: how many follows a second, for how long, through how many containers."""

    follows_per_second: int = 10_000
    seconds: int = 55
    containers: int = 100
    warm_write_units: int = 40_000
    static_level: int | None = None
    seed: int = 1


@dataclass
class Counts:
    """What happened, by seconds since the start."""

    offered: Counter[int] = field(default_factory=Counter)
    at_once: Counter[int] = field(default_factory=Counter)  # by when they were offered
    accepted: Counter[int] = field(default_factory=Counter)
    puts: Counter[int] = field(default_factory=Counter)
    throttled: Counter[int] = field(default_factory=Counter)
    given_up: int = 0
    settled: int = 0  # by RELATE, and of these the ones that have to come again
    unsettled: int = 0
    levels: list[tuple[float, int]] = field(default_factory=list)  # when, and to which
    refusals: Counter[str] = field(default_factory=Counter)


class Rush:
    """One rush."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.random = Random(plan.seed)
        self.loop = Loop(Clock(START_MS + self.random.randrange(BEGINNINGS_MS)))
        self.counts = Counts()
        self.acknowledged: set[str] = set()
        self.throttled: set[str] = set()  # followers whose put was refused at least once
        limits = Limits.warm(plan.warm_write_units)
        self.throttle = Throttle(self.loop.clock, limits, locate=self._partition_of)
        database = Database(self.loop.clock)
        database.create(*(schema_of(each) for each in (names.FOLLOWERS, names.PUBLISHERS)))
        # Without checking parameters: it takes most of the time, and the unit tests do.
        client: Any = dynamodb.Client(database, validates=False)
        self.client = client
        self.publishers = PublishersTable(client, names.PUBLISHERS.name)
        self.publishers.set_static_level(plan.static_level)
        self._containers = [self._container() for _ in range(plan.containers)]
        self._relate = [self._container() for _ in range(RELATE_CONTAINERS)]
        self._ended = 0
        self._relate_at = 0.0

    def _partition_of(self, _resource: Resource, key: str, partitions: int) -> int:
        """Where a key lies: by another hash than the ring's, and elsewhere with each seed."""
        salt = self.plan.seed.to_bytes(8, "big")
        digest = blake2b(key.encode(), digest_size=8, salt=salt, person=b"dynamodb").digest()
        return int.from_bytes(digest) * partitions >> 64

    def _container(self) -> Edges:
        timed: Any = Timed(self)
        return Edges(
            EdgesTable(timed, names.FOLLOWERS.name),
            Growing(
                Levels(PublishersTable(timed, names.PUBLISHERS.name)),
                Settings.max_level,
                Settings.growth_cooldown_ms,
                self._notify,
            ),
        )

    def _notify(self, _publisher_id: str, what: Shards | NotGrown) -> None:
        if isinstance(what, NotGrown):
            self.counts.refusals[what.reason] += 1
        else:
            self.counts.levels.append((self.loop.now, what.level))

    @property
    def second(self) -> int:
        """The second that it is now."""
        return int(self.loop.now)

    def latency(self) -> float:
        """How long a call takes, drawn anew."""
        return self.random.lognormvariate(math.log(CALL_MEDIAN_SECONDS), CALL_SIGMA)

    def run(self) -> Counts:
        """Let all follows come, and each of them end."""
        with installed(self.loop, self.random):
            # The publisher was followed before, too, so that RELATE's containers know its level.
            for edges in self._relate:
                self.loop.start(partial(edges.levels.to_write, PUBLISHER))
            self.loop.at(0.0, partial(self._arrive, 0))
            self.loop.run(self._is_over)
        return self.counts

    def _is_over(self) -> bool:
        is_last = self.loop.now >= self.plan.seconds
        return is_last and self._ended == self.counts.offered.total()

    def _arrive(self, number: int) -> None:
        """One follow comes, and the next one some time later: a Poisson process."""
        if self.loop.now >= self.plan.seconds:
            return
        gap = self.random.expovariate(self.plan.follows_per_second)
        self.loop.at(self.loop.now + gap, partial(self._arrive, number + 1))
        self.counts.offered[self.second] += 1
        self.loop.start(partial(self._follow, FOLLOWER.format(number), self.second))

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
        """RELATE settles each follow once more, at the pace of its lane."""
        at = max(self.loop.now + RELATE_SECONDS, self._relate_at)
        self._relate_at = at + 1 / Budget.of(self.plan.warm_write_units).relation.most
        self.loop.at(at, partial(self.loop.start, partial(self._settle_again, follower)))

    def _settle_again(self, follower: str) -> None:
        self.counts.settled += 1
        try:
            self.random.choice(self._relate).ensure(PUBLISHER, follower, version=1)
        except TryLater:
            self.counts.unsettled += 1  # its message comes again

    def found(self) -> Counter[str]:
        """How often a delivery reads each follower; free of charge."""
        level = self.publishers.shards(PUBLISHER).level
        pages = EdgesTable(self.client, names.FOLLOWERS.name).edges(
            PUBLISHER, RingRead(level, ring.START, ring.END)
        )
        return Counter(ring.follower_of(edge) for page in pages for edge in page)

    def twice(self) -> int:
        """Edges beyond one of each follower, at another level; free of charge."""
        level = self.publishers.shards(PUBLISHER).level
        wanted = RingRead(level, ring.START, ring.END)
        followers, edges, merged = EdgesTable(self.client, names.FOLLOWERS.name), 0, 0
        while read := wanted.next_read():
            page = followers.page(PUBLISHER, read)
            wanted.page_read(read, page)
            edges += len(page.edges)
            merged += len(wanted.take())
        return edges - merged

    def lost(self) -> int:
        """Acknowledged followers whom a delivery does not read exactly once."""
        found = self.found()
        return sum(found[follower] != 1 for follower in self.acknowledged)


@dataclass(frozen=True)
class Timed:
    """A client whose calls take time; each takes effect at the end of it.

    Whether it is throttled is asked before the model reads the request, not after: in a rush most
    are, and reading takes the longest. All items are below 1 KB, so each call is one unit.
    """

    rush: Rush

    @property
    def exceptions(self) -> Any:
        """The client's exceptions."""
        return self.rush.client.exceptions

    def put_item(self, **request: Any) -> Any:
        """PutItem of an edge, counted."""
        rush, item = self.rush, request["Item"]
        rush.loop.sleep(rush.latency())
        rush.counts.puts[rush.second] += 1
        try:
            self._pay("PutItem", Charge(FOLLOWERS, WRITE, item["shard_id"]["S"], 1))
        except ClientError:
            rush.counts.throttled[rush.second] += 1
            rush.throttled.add(ring.follower_of(item["edge"]["S"]))
            raise
        return rush.client.put_item(**request)

    def get_item(self, **request: Any) -> Any:
        """GetItem of a publisher, or of an edge."""
        self.rush.loop.sleep(self.rush.latency())
        units = read_units(0, consistent=bool(request.get("ConsistentRead")))
        table = Resource(request["TableName"])
        partition_key = next(iter(request["Key"].values()))["S"]
        self._pay("GetItem", Charge(table, READ, partition_key, units))
        return self.rush.client.get_item(**request)

    def update_item(self, **request: Any) -> Any:
        """UpdateItem of a publisher."""
        self.rush.loop.sleep(self.rush.latency())
        self._pay("UpdateItem", Charge(PUBLISHERS, WRITE, request["Key"]["publisher_id"]["S"], 1))
        return self.rush.client.update_item(**request)

    def _pay(self, operation: str, charge: Charge) -> None:
        if reasons := self.rush.throttle.admit([charge]):
            raise client_error(dynamodb.SERVICE, operation, throttled(reasons))
