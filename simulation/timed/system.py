"""The product on the capacity model, in virtual time: use cases, policy and loop are the real ones.

Ours are the tables, the queues, the calls and Lambda: how long each takes is in the constants.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any, Protocol

from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import WRITE, Limits, Meter, Resource, Throttle
from aws_model.dynamodb.database import Database
from aws_model.sqs import client as sqs
from aws_model.sqs.queues import Hooks as QueueHooks
from fanfold import names
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import ATTEMPTS, is_throttle, is_transient
from fanfold.budgets import Budget
from fanfold.fanout.deliver import HAND_BACK_SECONDS, Delivering
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.pacing import BURST_ENTRIES, Pace
from fanfold.fanout.plan import Planning
from fanfold.fanout.policy import Send
from fanfold.fanout.publish import NewPost, Publishing
from fanfold.fanout.transport import Finished
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.ring_reader import Page, Read
from fanfold.messages import DeliverSegment, PlanFanout
from fanfold.timeline.entries import Entries, Entry
from fanfold.timeline.posts import Posts
from simulation.schemas import schema_of
from simulation.timed.loop import Bell, Loop, installed
from simulation.timed.tables import CountedTimelines, Written

# A call to DynamoDB or SQS: 5.5 ms on average, log-normal, one in a hundred above 9.5 ms.
CALL_MEDIAN_SECONDS, CALL_SIGMA = 0.0053, 0.25
# A page of edges takes longer, by what it carries: 2,500 edges, 200 KB, 30 ms.
EDGE_SECONDS = 0.00001
# From a message that can be seen to the first line of the handler, on a warm machine.
INVOKE_SECONDS = (0.010, 0.020)
# Python, the imports and the first TLS connection of a machine that is new.
COLD_START_SECONDS = 0.4
# Lambda's pollers of a queue that was quiet begin with five batches at a time, and add 300 a minute
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
    """A table that is warm for so much, which is also its quota."""
    limits = Limits.warm(write_units_per_second)
    return replace(limits, quota_writes=write_units_per_second)


def partition_of(_resource: Resource, key: str, partitions: int) -> int:
    """Where a key lies: by another hash than the ring's, as in DynamoDB.

    By the same one, each segment of followers would fall on one partition of the timelines.
    """
    digest = blake2b(key.encode(), digest_size=8, person=b"dynamodb").digest()
    return int.from_bytes(digest) * partitions >> 64


@dataclass
class Machine:
    """A Lambda environment: what a worker has learnt outlives the invocation."""

    paces: dict[str, Pace]


@dataclass
class Counts:
    """What DELIVER's calls came to."""

    sent: int = 0  # entries, each time that one is
    refused: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Exception] = field(default_factory=list)

    @property
    def throttled_share(self) -> float:
        """Of the entries sent, so many came back."""
        return self.refused / max(1, self.sent)


class Model:
    """The system: workers for a capacity that is believed, and a table that takes what it takes."""

    def __init__(
        self, believed: int, limits: Limits | None = None, *, seed: int = 0, cold: bool = False
    ) -> None:
        self.random = Random(seed)
        self.loop = Loop()
        self.budget = Budget.of(believed)
        self.cold = cold
        self.counts = Counts()
        self._place_tables(limits or warm(believed))
        self._place_queues()
        self._machines: list[Machine] = []
        self._place_workers()

    def _place_tables(self, limits: Limits) -> None:
        clock = self.loop.clock
        self.meter = Meter(Throttle(clock, limits, locate=partition_of))
        self.database = Database(clock, meter=self.meter)
        schemas = [schema_of(each) for each in names.TABLES if each is not names.TIMELINES]
        self.database.create(*schemas)
        self.timelines = CountedTimelines(clock)
        self.database.tables[names.TIMELINES.name] = self.timelines
        # Without checking parameters: it takes most of the time, and the unit tests do.
        self.at_once = dynamodb.Client(self.database, validates=False)
        self.dynamodb: Any = Timed(self, self.at_once)

    def _place_queues(self) -> None:
        self.queues = sqs.Queues(self.loop.clock, QueueHooks(random=self.random))
        self.sqs_at_once = sqs.Client(self.queues, validates=False)
        timed: Any = Timed(self, self.sqs_at_once)
        self.lanes = {}
        for queue in (names.PUBLISH, names.EXPRESS, names.BULK):
            url, _ = self.queues.create_with_dlq(
                queue.name,
                max_receives=queue.max_receives,
                visibility_seconds=queue.visibility_seconds,
            )
            self.lanes[queue] = WorkQueue(timed, url)

    def _place_workers(self) -> None:
        lanes = Lanes(express=self.lanes[names.EXPRESS], bulk=self.lanes[names.BULK])
        fanouts = Ledger(self.dynamodb, names.FANOUTS.name)
        posts = Posts(self.dynamodb, names.POSTS.name)
        followers = EdgesTable(self.dynamodb, names.FOLLOWERS.name)
        publishers = PublishersTable(self.dynamodb, names.PUBLISHERS.name)
        self.publishing = Publishing(posts, fanouts, RETENTION_DAYS)
        self.planning = Planning(fanouts, followers, publishers, lanes)
        transport = ModelTransport(self)
        self.delivering = Delivering(fanouts, posts, publishers, lanes, transport)
        bulk, express = self.budget.bulk, self.budget.express
        self.sources = {
            self.lanes[queue].url: EventSource(self, queue, self.lanes[queue].url, workers, take)
            for queue, workers, take in (
                (names.PUBLISH, PUBLISH_WORKERS, self._plan),
                (names.EXPRESS, express.max_concurrency, partial(self._deliver, "express")),
                (names.BULK, bulk.max_concurrency, partial(self._deliver, "bulk")),
            )
        }

    # What happens

    def installed(self) -> AbstractContextManager[None]:
        """Let the product live in this model's time."""
        return installed(self.loop, self.random)

    def publish(self, publisher_id: str, ref_id: str) -> None:
        """Publish a post of 1 KB, as the HTTP door does, beginning now."""

        def door() -> None:
            new = NewPost(publisher_id=publisher_id, ref_id=ref_id, body=BODY)
            now, queue = self.loop.clock.now_ms(), self.lanes[names.PUBLISH]
            self.publishing.publish(new, accepted_at=now, plan_queue=queue)

        self.loop.start(door)

    def written(self, ref_id: str) -> Written:
        """What is written of a post so far."""
        for sort_key, written in self.timelines.written.items():
            if sort_key.endswith(f"#{ref_id}"):
                return written
        return Written()

    def is_complete(self, ref_id: str) -> bool:
        """Whether the ledger says that a fan-out is complete; free of charge."""
        row = self.database.table(names.FANOUTS.name).get(
            self.database.table(names.FANOUTS.name).checked_key({"fanout_id": ("S", ref_id)})
        )
        return row is not None and row.item["state"][1] == "complete"

    def write_units(self) -> float:
        """Everything that was written, over all tables and their indexes."""
        return sum(units for (_, kind), units in self.meter.units.items() if kind == WRITE)

    def latency(self) -> float:
        """How long a call takes, drawn anew."""
        return self.random.lognormvariate(math.log(CALL_MEDIAN_SECONDS), CALL_SIGMA)

    def machine(self) -> Machine:
        """A machine that is free, the last one used first; a new one takes time if cold."""
        if self._machines:
            return self._machines.pop()
        if self.cold:
            self.loop.sleep(COLD_START_SECONDS)
        rates = {"express": self.budget.express, "bulk": self.budget.bulk}
        bursts = {"express": BURST_ENTRIES, "bulk": MAX_PUTS}  # as functions/deliver.py has them
        return Machine({lane: Pace(each.worker_rate, bursts[lane]) for lane, each in rates.items()})

    # The doors

    def _plan(self, content: dict[str, Any], *, redelivered: bool) -> None:
        order = PlanFanout.from_content(content)
        self.planning.plan(order.fanout_id, redelivered=redelivered)

    def _deliver(self, lane: str, content: dict[str, Any], *, redelivered: bool) -> None:
        machine = self.machine()
        try:
            outcome = self.delivering.deliver(
                DeliverSegment.from_content(content),
                pace=machine.paces[lane],
                redelivered=redelivered,
                stop_at=self.loop.now + names.DELIVER.seconds - HAND_BACK_SECONDS,
            )
        finally:
            self._machines.append(machine)
        self.counts.outcomes[outcome.what] += 1


class Take(Protocol):
    """A door behind a queue."""

    def __call__(self, content: dict[str, Any], *, redelivered: bool) -> None:
        """Carry out one message."""


@dataclass
class EventSource:
    """Lambda's mapping of a queue to a function: so many batches at a time."""

    model: Model
    queue: names.Queue
    url: str
    workers: int
    take: Take
    busy: int = 0
    _since: float | None = None  # when the queue was no longer quiet

    def look(self) -> None:
        """Hand out what waits, as far as workers are free."""
        while self.busy < self._pollers():
            found = self.model.sqs_at_once.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=self.queue.batch_size,
                AttributeNames=["All"],
            )
            if "Messages" not in found:
                return
            self.busy += 1
            self.model.loop.start(partial(self._work, found["Messages"]))
        if self.busy < self.workers:
            self.look_in(1 / POLLERS_PER_SECOND)

    def look_in(self, seconds: float) -> None:
        """Look after some time, when there may be something."""
        self.model.loop.at(self.model.loop.now + seconds, self.look)

    def _pollers(self) -> int:
        if not self.model.cold:
            return self.workers
        now = self.model.loop.now
        self._since = now if self._since is None else self._since
        return min(self.workers, FIRST_POLLERS + int((now - self._since) * POLLERS_PER_SECOND))

    def _work(self, messages: list[dict[str, Any]]) -> None:
        model = self.model
        model.loop.sleep(model.random.uniform(*INVOKE_SECONDS))
        for message in messages:
            redelivered = int(message["Attributes"]["ApproximateReceiveCount"]) > 1
            try:
                self.take(json.loads(message["Body"]), redelivered=redelivered)
            except Exception as error:  # noqa: BLE001 - as in Lambda, the message comes again
                model.counts.failures.append(error)
                self.look_in(self.queue.visibility_seconds)
            else:
                handle = message["ReceiptHandle"]
                model.sqs_at_once.delete_message(QueueUrl=self.url, ReceiptHandle=handle)
        model.loop.sleep(model.latency())  # Lambda deletes before it polls again
        self.busy -= 1
        self.look()


@dataclass(frozen=True)
class Timed:
    """A client whose calls take time, and are tried again as the product's clients do."""

    model: Model
    client: Any

    @property
    def exceptions(self) -> Any:
        """The client's exceptions."""
        return self.client.exceptions

    def __getattr__(self, operation: str) -> Any:
        return partial(self._try, operation)

    def _try(self, operation: str, **request: Any) -> Any:
        for _ in range(ATTEMPTS - 1):
            try:
                return self._once(operation, request)
            except Exception as error:
                if not is_transient(error):
                    raise
        return self._once(operation, request)

    def _once(self, operation: str, request: dict[str, Any]) -> Any:
        loop, took = self.model.loop, self.model.latency()
        loop.sleep(took / 2)
        try:
            answer = getattr(self.client, operation)(**request)
            if operation == "send_message_batch":
                for entry in request["Entries"]:
                    self.model.sources[request["QueueUrl"]].look_in(entry["DelaySeconds"])
            return answer
        finally:
            loop.sleep(took / 2)


@dataclass(frozen=True)
class ModelTransport:
    """Makes calls to the model, many at a time."""

    model: Model

    @contextmanager
    def calls(self, entry: Entry) -> Iterator[ModelCalls]:
        """To deliver `entry`; calls in flight at the end take effect, and nobody hears of them."""
        yield ModelCalls(self.model, entry)


class ModelCalls:
    """The calls of one delivery: each takes effect half-way through its time."""

    def __init__(self, model: Model, entry: Entry) -> None:
        self.model = model
        self.entry = entry
        self._followers = EdgesTable(model.at_once, names.FOLLOWERS.name)  # type: ignore[arg-type]
        self._timelines = Entries(model.at_once, names.TIMELINES.name)  # type: ignore[arg-type]
        self._ended: list[Finished] = []
        self._bell = Bell(model.loop)

    def start(self, action: Read | Send) -> None:
        """Begin a call."""
        half = self.model.latency() / 2
        self.model.loop.at(self.model.loop.now + half, lambda: self._arrive(action, half))

    def finished(self, seconds: float | None) -> list[Finished]:
        """Wait for calls to end, at most so long, or until one does; those that have ended."""
        if not self._ended:
            self._bell.wait(seconds)
        ended, self._ended = self._ended, []
        return ended

    def _arrive(self, action: Read | Send, half: float) -> None:
        if isinstance(action, Send):
            result: Page | Collection[str] | Exception = self._push(action)
        else:
            result = self._page(action)
        if isinstance(result, Page):
            half += EDGE_SECONDS * len(result.edges)
        self.model.loop.at(self.model.loop.now + half, lambda: self._end(Finished(action, result)))

    def _end(self, call: Finished) -> None:
        self._ended.append(call)
        self._bell.ring()

    def _page(self, action: Read) -> Page | Exception:
        try:
            return self._followers.page(self.entry.publisher_id, action)
        except Exception as error:  # noqa: BLE001 - the policy decides
            return error

    def _push(self, action: Send) -> Collection[str] | Exception:
        counts = self.model.counts
        counts.sent += len(action.edges)
        try:
            left = self._timelines.push(self.entry, [ring.follower_of(e) for e in action.edges])
        except Exception as error:  # noqa: BLE001 - the policy decides
            if is_throttle(error):
                counts.refused += len(action.edges)
            return error
        counts.refused += len(left)
        return left
