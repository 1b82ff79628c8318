"""The product on the capacity model, in virtual time: it shows how long a fan-out takes.

Use cases, policy and loop of delivery are the product's. Simulated are tables, queues, the duration
of calls, and Lambda; the constants say with which numbers.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any, Protocol

from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import Limits, Meter, Resource, Throttle
from aws_model.dynamodb.database import Database
from aws_model.sqs import client as sqs
from aws_model.sqs.queues import Hooks as QueueHooks
from fanfold import names
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.queues import WorkQueue
from fanfold.budgets import Budget
from fanfold.fanout.deliver import HAND_BACK_SECONDS, Delivering
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.pacing import BURST_ENTRIES, Pace
from fanfold.fanout.plan import Planning
from fanfold.fanout.publish import NewPost, Publishing
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.messages import DeliverSegment, PlanFanout
from fanfold.timeline.posts import Posts
from simulation.scheduler import Scheduler, virtual_time
from simulation.schemas import schema_of
from simulation.timed.calls import Counts, ModelTransport, Timed, call_seconds
from simulation.timed.tables import CountedTimelines, Written

# From a visible message to the first line of the handler, in a warm environment.
INVOKE_SECONDS = (0.010, 0.020)
# Python, the imports and the first TLS connection of a new environment.
COLD_START_SECONDS = 0.4
# Lambda polls a queue that was idle with five batches at a time, and adds 300 a minute
# (services-sqs-scaling in the developer guide).
FIRST_POLLERS, POLLERS_PER_SECOND = 5, 5
# As a stage has them by default.
PUBLISH_WORKERS = 10
RETENTION_DAYS = 30
# Ids as long as those of Cognito.
PUBLISHER = "ada00000-0000-4000-8000-000000000001"
POST = "90570000-0000-4000-8000-000000000001"
# A body of 1 KB, as JSON.
BODY = json.dumps({"text": "x" * 1_013})


def warm(write_units_per_second: int) -> Limits:
    """A table that is warm for a rate, which is also its quota."""
    limits = Limits.warm(write_units_per_second)
    return replace(limits, quota_writes=write_units_per_second)


def partition_of(_resource: Resource, key: str, partitions: int, *, seed: int = 0) -> int:
    """The partition of a key: by another hash than the ring's, as in DynamoDB.

    By the ring's, each segment of followers would fall on one partition of the timelines.
    """
    salt = seed.to_bytes(8, "big")
    digest = blake2b(key.encode(), digest_size=8, salt=salt, person=b"dynamodb").digest()
    return int.from_bytes(digest) * partitions >> 64


class System:
    """Workers with a budget for the capacity that they believe in, and a table with real limits."""

    def __init__(
        self, believed: int, limits: Limits | None = None, *, seed: int = 0, cold: bool = False
    ) -> None:
        self.random = Random(seed)
        self.scheduler = Scheduler(self.random)
        self.budget = Budget.of(believed)
        self.cold = cold
        self.counts = Counts()
        self._create_tables(limits or warm(believed))
        self._create_queues()
        # Warm and free environments of DELIVER: what each has learnt of its pace, by lane.
        self._environments: list[dict[str, Pace]] = []
        self._start_workers()

    def _create_tables(self, limits: Limits) -> None:
        clock = self.scheduler.clock
        self.meter = Meter(Throttle(clock, limits, locate=partition_of))
        self.database = Database(clock, meter=self.meter)
        schemas = [schema_of(each) for each in names.TABLES if each is not names.TIMELINES]
        self.database.create(*schemas)
        self.timelines = CountedTimelines(clock)
        self.database.tables[names.TIMELINES.name] = self.timelines
        # Validating parameters would take most of the time; the unit tests do it.
        self.untimed_dynamodb: Any = dynamodb.Client(self.database, validates=False)
        self.dynamodb: Any = Timed(self.scheduler, self.untimed_dynamodb)

    def _create_queues(self) -> None:
        self.queues = sqs.Queues(self.scheduler.clock, QueueHooks(random=self.random))
        self.untimed_sqs = sqs.Client(self.queues, validates=False)
        timed: Any = Timed(self.scheduler, self.untimed_sqs, self._poll_for)
        self.lanes = {}
        for queue in (names.PUBLISH, names.EXPRESS, names.BULK):
            url, _ = self.queues.create_with_dlq(
                queue.name,
                max_receives=queue.max_receives,
                visibility_seconds=queue.visibility_seconds,
            )
            self.lanes[queue] = WorkQueue(timed, url)

    def _start_workers(self) -> None:
        lanes = Lanes(express=self.lanes[names.EXPRESS], bulk=self.lanes[names.BULK])
        fanouts = Ledger(self.dynamodb, names.FANOUTS.name)
        posts = Posts(self.dynamodb, names.POSTS.name)
        followers = EdgesTable(self.dynamodb, names.FOLLOWERS.name)
        publishers = PublishersTable(self.dynamodb, names.PUBLISHERS.name)
        self.publishing = Publishing(posts, fanouts, RETENTION_DAYS)
        self.planning = Planning(fanouts, followers, publishers, lanes)
        self.transport = ModelTransport(self.scheduler, self.untimed_dynamodb, self.counts)
        self.delivering = Delivering(fanouts, posts, publishers, lanes, self.transport)
        bulk, express = self.budget.bulk, self.budget.express
        self.mappings: dict[str, EventSourceMapping] = {
            self.lanes[queue].url: OneByOne(
                self, queue, self.lanes[queue].url, workers, handle=handle
            )
            for queue, workers, handle in (
                (names.PUBLISH, PUBLISH_WORKERS, self._plan),
                (names.EXPRESS, express.max_concurrency, partial(self._deliver, "express")),
                (names.BULK, bulk.max_concurrency, partial(self._deliver, "bulk")),
            )
        }

    def virtual_time(self) -> AbstractContextManager[None]:
        """Let the product live in this system's time."""
        return virtual_time(self.scheduler)

    def publish(self, publisher_id: str, ref_id: str) -> None:
        """Start to publish a post of 1 KB, as over HTTP."""

        def door() -> None:
            new = NewPost(publisher_id=publisher_id, ref_id=ref_id, body=BODY)
            now, queue = self.scheduler.clock.now_ms(), self.lanes[names.PUBLISH]
            self.publishing.publish(new, accepted_at=now, plan_queue=queue)

        self.scheduler.start(door)

    def run_until_complete(self, ref_id: str) -> None:
        """Go on until the ledger says that a fan-out is complete."""
        with self.virtual_time():
            self.scheduler.run(lambda: self.is_complete(ref_id))

    def written(self, ref_id: str) -> Written:
        """What has been written of a post so far."""
        for sort_key, written in self.timelines.written.items():
            if sort_key.endswith(f"#{ref_id}"):
                return written
        return Written()

    def is_complete(self, ref_id: str) -> bool:
        """Whether the ledger says that a fan-out is complete; it costs no units."""
        ledger = self.database.table(names.FANOUTS.name)
        row = ledger.get(ledger.checked_key({"fanout_id": ("S", ref_id)}))
        return row is not None and row.item["state"][1] == "complete"

    def _poll_for(self, operation: str, request: dict[str, Any]) -> None:
        """Have a queue polled when the messages that were sent to it are visible."""
        if operation == "send_message_batch":
            for entry in request["Entries"]:
                self.mappings[request["QueueUrl"]].poll_in(entry["DelaySeconds"])

    def _plan(self, content: dict[str, Any], *, redelivered: bool) -> None:
        command = PlanFanout.from_content(content)
        self.planning.plan(command.fanout_id, redelivered=redelivered)

    def _deliver(self, lane: str, content: dict[str, Any], *, redelivered: bool) -> None:
        paces = self._environment()
        try:
            outcome = self.delivering.deliver(
                DeliverSegment.from_content(content),
                pace=paces[lane],
                redelivered=redelivered,
                sent_at=0,  # SWEEP does not run here
                stop_at=self.scheduler.now + names.DELIVER.seconds - HAND_BACK_SECONDS,
            )
        finally:
            self._environments.append(paces)
        self.counts.outcomes[outcome.what] += 1

    def _environment(self) -> dict[str, Pace]:
        """A free environment, the last one used first; a new one takes time if Lambda is cold."""
        if self._environments:
            return self._environments.pop()
        if self.cold:
            self.scheduler.sleep(COLD_START_SECONDS)
        # The bursts are those of functions/deliver.py.
        return {
            "express": Pace(self.budget.express.worker_rate, BURST_ENTRIES),
            "bulk": Pace(self.budget.bulk.worker_rate, MAX_PUTS),
        }


class Handle(Protocol):
    """A worker's use case."""

    def __call__(self, content: dict[str, Any], *, redelivered: bool) -> None:
        """Handle one message."""


@dataclass
class EventSourceMapping(ABC):
    """Invokes a function with the messages of a queue, a bounded number of batches at a time."""

    system: System
    queue: names.Queue
    url: str
    max_workers: int
    busy: int = 0
    _active_since: float | None = None  # when Lambda began to add pollers

    def poll(self) -> None:
        """Invoke the function with what is visible, while a worker is free."""
        while self.busy < self._pollers():
            received = self.system.untimed_sqs.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=self.queue.batch_size,
                AttributeNames=["All"],
            )
            if "Messages" not in received:
                return
            self.busy += 1
            self.system.scheduler.start(partial(self._work, received["Messages"]))
        if self.busy < self.max_workers:
            self.poll_in(1 / POLLERS_PER_SECOND)

    def poll_in(self, seconds: float) -> None:
        self.system.scheduler.at(self.system.scheduler.now + seconds, self.poll)

    def _pollers(self) -> int:
        if not self.system.cold:
            return self.max_workers
        now = self.system.scheduler.now
        self._active_since = now if self._active_since is None else self._active_since
        added = int((now - self._active_since) * POLLERS_PER_SECOND)
        return min(self.max_workers, FIRST_POLLERS + added)

    def _work(self, messages: list[dict[str, Any]]) -> None:
        system = self.system
        system.scheduler.sleep(system.random.uniform(*INVOKE_SECONDS))
        self.carry_out(messages)
        system.scheduler.sleep(call_seconds(system.random))  # Lambda deletes before it polls again
        self.busy -= 1
        self.poll()

    @abstractmethod
    def carry_out(self, messages: list[dict[str, Any]]) -> None:
        """Handle a batch: each of its messages is then `done`, or `comes_again`."""

    def done(self, message: dict[str, Any]) -> None:
        """Delete a message."""
        handle = message["ReceiptHandle"]
        self.system.untimed_sqs.delete_message(QueueUrl=self.url, ReceiptHandle=handle)

    def comes_again(self, error: Exception) -> None:
        """Poll for a message that failed, when it is visible again."""
        self.system.counts.failures.append(error)
        self.poll_in(self.queue.visibility_seconds)


@dataclass
class OneByOne(EventSourceMapping):
    """The messages of a batch are handled one after the other."""

    handle: Handle = field(kw_only=True)

    def carry_out(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            redelivered = int(message["Attributes"]["ApproximateReceiveCount"]) > 1
            try:
                self.handle(json.loads(message["Body"]), redelivered=redelivered)
            except Exception as error:  # noqa: BLE001 - as in Lambda, the message comes again
                self.comes_again(error)
            else:
                self.done(message)
