"""Tables with real limits, queues, and Lambda that polls them, in virtual time."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import blake2b
from random import Random
from typing import Any, TypeVar

from fanfold import names
from fanfold.aws.queues import WorkQueue
from fanfold.budgets import Budget
from fanfold.fanout.transport import loop
from fanfold.fanout.transport.loop import Job
from fanfold.fanout.worker_steps import Delivery
from fanfold.timeline.entries import Entry
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import WRITE, Limits, Meter, Resource, Throttle
from proof.model.dynamodb.database import Database
from proof.model.sqs import client as sqs
from proof.model.sqs.queues import Hooks as QueueHooks
from proof.simulation.timed.calls import Applied, CallCounts, InARow, TimedCalls
from proof.simulation.timed.mappings import Environments, EventSourceMapping, Handle, SideBySide
from proof.simulation.timed.tables import CountedTimelines, Written
from proof.simulation.timed.tasks import TaskEvent
from proof.simulation.world.scheduler import Scheduler, clock_patches, patched
from proof.simulation.world.schemas import schema_of

E = TypeVar("E")


def warm(write_units_per_second: int) -> Limits:
    """The limits of a table that is warm for this rate, which is also its quota."""
    limits = Limits.warm(write_units_per_second)
    return replace(limits, quota_writes=write_units_per_second)


def partition_of(_resource: Resource, key: str, partitions: int, *, seed: int = 0) -> int:
    """The partition of a key, by another hash than the ring's, as in DynamoDB.

    With the ring's hash, each segment of followers would be in one partition of the timelines.
    """
    salt = seed.to_bytes(8, "big")
    digest = blake2b(key.encode(), digest_size=8, salt=salt, person=b"dynamodb").digest()
    return int.from_bytes(digest) * partitions >> 64


class Model:
    """Tables with real limits, and a budget for the capacity that workers assume."""

    def __init__(
        self, believed: int, limits: Limits | None = None, *, seed: int = 0, cold: bool = False
    ) -> None:
        self.random = Random(seed)
        self.scheduler = Scheduler(self.random)
        self.budget = Budget.of(believed)
        self.cold = cold
        self.counts, self.in_a_row = CallCounts(), InARow()
        self.accepted: dict[str, float] = {}  # posts, and when their publish was answered
        self._create_tables(limits or warm(believed))
        self._create_queues()
        self.mappings: dict[str, EventSourceMapping] = {}

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
        self.dynamodb: Any = self.timed(self.untimed_dynamodb)

    def _create_queues(self) -> None:
        self.queues = sqs.Queues(self.scheduler.clock, QueueHooks(random=self.random))
        self.untimed_sqs = sqs.Client(self.queues, validates=False)
        timed = self.timed(self.untimed_sqs, self._poll_for)
        self.lanes = {}
        for queue in (names.PUBLISH, names.EXPRESS, names.BULK):
            url, _ = self.queues.create_with_dlq(
                queue.name,
                max_receives=queue.max_receives,
                visibility_seconds=queue.visibility_seconds,
            )
            self.lanes[queue] = WorkQueue(timed, url)

    def map(self, queue: names.Queue, environments: Environments[E], handle: Handle[E]) -> None:
        """Invoke a function with the messages of a queue."""
        url, workers = self.lanes[queue].url, self.budget.workers[queue]
        self.mappings[url] = SideBySide(
            self, queue, url, workers, environments=environments, handle=handle
        )

    def timed(self, client: Any, applied: Applied = lambda _operation, _request: None) -> Any:
        """A client whose calls take time."""
        return TimedCalls(self.scheduler, client, applied, self.in_a_row)

    def virtual_time(self) -> AbstractContextManager[None]:
        """Run the product in this system's time."""
        return patched([*clock_patches(lambda: self.scheduler), (loop, "Job", self._job)])

    def _job(self, delivery: Delivery, entry: Entry) -> Job:
        has_ended: Any = TaskEvent(self.scheduler)
        return Job(delivery, entry, has_ended=has_ended)

    def written(self, ref_id: str) -> Written:
        """What has been written of a post so far."""
        for sort_key, written in self.timelines.written.items():
            if sort_key.endswith(f"#{ref_id}"):
                return written
        return Written()

    def units_beside(self) -> dict[str, float]:
        """Write units so far, except for entries, by table or index."""
        return {
            " index ".join(filter(None, (resource.table, resource.index_name))): float(spent)
            for (resource, kind), spent in self.meter.units.items()
            if kind == WRITE and resource.table != names.TIMELINES.name
        }

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
