"""The product's own rule: its use cases and its ledger, on the model of DynamoDB.

Real are publishing, PLAN, DELIVER but for the entries, SWEEP, and every call to the tables. No
entry is written: a segment takes its time, and all its followers then count as written. Followers
are made up as PLAN samples them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from fanfold import names
from fanfold.aws.event_sources import EventSourceMappings
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import AT_A_TIME
from fanfold.aws.threads import together
from fanfold.fanout import deliver, plan
from fanfold.fanout.deliver import Delivering
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.lookup import Lookup
from fanfold.fanout.pacing import Pace
from fanfold.fanout.plan import Planning
from fanfold.fanout.publishing.publish import NewPost, Publishing
from fanfold.fanout.segment_size import SEGMENT_FOLLOWERS
from fanfold.fanout.worker_steps import Done
from fanfold.messages import DeliverSegment, PlanFanout, parse
from fanfold.settings import Settings
from fanfold.sweep.sweep import Sweeping
from proof.bench.sweep.lanes import Order
from proof.bench.sweep.world import (
    BULK,
    EXPRESS,
    EXPRESS_SECONDS,
    GLANCE_SECONDS,
    PUBLISH,
    SEGMENT_SECONDS,
    LambdaClient,
    QueueClient,
    SweepPost,
    SweepWorld,
)
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import Meter
from proof.model.dynamodb.database import Database
from proof.simulation.stage import stores
from proof.simulation.timed.calls import TimedCalls, call_seconds
from proof.simulation.timed.tables import make_up_followers
from proof.simulation.timed.tasks import Threads
from proof.simulation.world.scheduler import Scheduler
from proof.simulation.world.schemas import schema_of

# Followers of one segment, alone in its fan-out or one of several. PLAN's estimate of the
# whole is off by a few percent, and must not give another number of segments.
SMALL_FOLLOWERS, FOLLOWERS_A_SEGMENT = 20, SEGMENT_FOLLOWERS * 3 // 4
# What a run of SWEEP has of its time; its door keeps the rest.
RUN_SECONDS = names.SWEEP.seconds - 10


@dataclass(frozen=True)
class Writes:
    """Stands in for a transport: each segment takes a fixed time."""

    scheduler: Scheduler
    seconds: float
    followers: int

    def run(self) -> Done:
        self.scheduler.sleep(self.seconds - GLANCE_SECONDS)
        return Done(self.followers)


@contextmanager
def without_entries() -> Iterator[None]:
    """For a while, DELIVER takes the time of a segment instead of writing its entries.

    PLAN writes none: what loses its only segment has more followers than PLAN delivers to by
    itself, and small fan-outs stand for such ones, since they are sampled sooner.
    """
    with (
        patch.object(deliver, "run", lambda _delivery, writes, _entry: writes.run()),
        patch.object(plan, "_fits", lambda _sample: False),
    ):
        yield


class Product:
    def __init__(self, world: SweepWorld) -> None:
        self.world = world
        self.meter = Meter()
        database = Database(world.scheduler.clock, meter=self.meter)
        database.create(*(schema_of(table) for table in names.TABLES))
        self.database = database
        # Validating parameters would take most of the time; the unit tests do it.
        client: Any = dynamodb.Client(database, validates=False)
        sqs: Any = QueueClient(world)
        self._compose(client, sqs)
        threads = None
        if world.case.is_timed:
            client, sqs = TimedTables(database, world.scheduler), TimedCalls(world.scheduler, sqs)
            threads = Threads(world.scheduler, AT_A_TIME)
        self._compose_sweep(client, sqs, threads)

    def _compose(self, client: Any, sqs: Any) -> None:
        scheduler = self.world.scheduler
        lanes = Lanes(express=WorkQueue(sqs, EXPRESS), bulk=WorkQueue(sqs, BULK))
        self.ledger = stores(client).ledger
        posts = stores(client).posts
        publishers = stores(client).publishers
        edges = stores(client).edges
        self.publishing = Publishing(posts, self.ledger, Settings.retention_days)
        self.publish_queue = WorkQueue(sqs, PUBLISH)
        lookup = Lookup(self.ledger, posts, publishers, edges, partial(together, client, None))
        no_loop: Any = None
        self.planning = Planning(lookup, self.ledger, edges, lanes, no_loop)
        self.delivering = {
            lane: Delivering(
                lookup,
                self.ledger,
                lanes,
                Writes(scheduler, seconds, followers),  # type: ignore[arg-type]
            )
            for lane, seconds, followers in (
                (EXPRESS, EXPRESS_SECONDS, SMALL_FOLLOWERS),
                (BULK, SEGMENT_SECONDS, FOLLOWERS_A_SEGMENT),
            )
        }

    def _compose_sweep(self, client: Any, sqs: Any, threads: Any) -> None:
        self.fanouts = stores(client).open_fanouts
        lambda_: Any = LambdaClient(self.world)
        self.sweeping = Sweeping(
            self.fanouts,
            stores(client).ledger,
            WorkQueue(sqs, PUBLISH),
            Lanes(express=WorkQueue(sqs, EXPRESS), bulk=WorkQueue(sqs, BULK)),
            EventSourceMappings(lambda_, {url: url for url in (PUBLISH, EXPRESS, BULK)}),
            threads,
        )

    # What `world.Books` asks for

    def accept(self, post: SweepPost) -> None:
        followers = FOLLOWERS_A_SEGMENT * post.segments if post.segments > 1 else SMALL_FOLLOWERS
        make_up_followers(self.database, post.publisher_id, followers, seed=1)
        self.publishing.publish(
            NewPost(publisher_id=post.publisher_id, ref_id=post.fanout_id),
            accepted_at=self.world.now_ms,
            plan_queue=self.publish_queue,
        )

    def plan(self, order: Order) -> None:
        command = PlanFanout.from_content(parse(order.body))
        self.planning.plan(
            command.fanout_id,
            publisher_id=order.group,
            pace=Pace(1_000),
            redelivered=False,
            stop_at=self.world.scheduler.now + names.PLAN.seconds,
        )

    def deliver(self, order: Order, lane: str) -> None:
        self.delivering[lane].deliver(
            DeliverSegment.from_content(parse(order.body)),
            publisher_id=order.group,
            pace=Pace(1_000),
            redelivered=False,
            sent_at=order.sent_ms,
            stop_at=self.world.scheduler.now + names.DELIVER.seconds,
        )

    def sweep(self) -> None:
        stop_at = self.world.scheduler.now + RUN_SECONDS
        self.sweeping.sweep(stop_at=stop_at, report=lambda _swept: None)

    def is_complete(self, fanout_id: str) -> bool:
        table = self.database.table(names.FANOUTS.name)
        row = table.get(table.checked_key({"fanout_id": ("S", fanout_id)}))
        return row is not None and row.item["state"][1] == "complete"

    def stalled(self) -> int:
        return len(list(self.ledger.stalled_ids()))


class TimedTables(dynamodb.Client):
    """A client whose calls take time; unlike `Timed` it also scans pages."""

    def __init__(self, database: Database, scheduler: Scheduler) -> None:
        super().__init__(database, validates=False)
        self.scheduler = scheduler

    def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.scheduler.sleep(call_seconds(self.scheduler.random))
        return super().call(operation, request)
