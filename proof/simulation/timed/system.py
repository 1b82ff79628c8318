"""The product on the capacity model, in virtual time: it shows how long a fan-out takes.

Use cases, policy and loop of delivery are the product's. Tables, queues, durations of calls and
Lambda are simulated, with the numbers in the constants.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from fanfold import contract, names
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.retries import AT_A_TIME
from fanfold.aws.threads import together
from fanfold.fanout.deliver import HAND_BACK_SECONDS, Delivering
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.lookup import Lookup
from fanfold.fanout.pacing import Pace
from fanfold.fanout.plan import Planning
from fanfold.fanout.publishing.publish import NewPost, Publishing
from fanfold.fanout.transport.loop import JOIN_SECONDS, Loop
from fanfold.json_text import Body
from fanfold.messages import DeliverSegment, Message, PlanFanout
from fanfold.rates import Rate
from fanfold.settings import Settings
from proof.model.dynamodb.capacity import Limits
from proof.simulation.stage import stores
from proof.simulation.timed.calls import ModelTransport
from proof.simulation.timed.mappings import Arrived, Environments
from proof.simulation.timed.model import Model
from proof.simulation.timed.tasks import Threads

# The default of a stage.
RETENTION_DAYS = 30
RATE = Rate.a_minute(Settings.publishes_per_minute)
# Ids as long as those of Cognito.
PUBLISHER = "ada00000-0000-4000-8000-000000000001"
POST = "90570000-0000-4000-8000-000000000001"
# A body of 1 KB, as JSON.
BODY = json.dumps({"text": "x" * 1_013})


class Planner(NamedTuple):
    """A warm environment of PLAN: its messages share a loop and a pace."""

    planning: Planning
    pace: Pace


class Paces(NamedTuple):
    """The paces that a warm environment of DELIVER has learnt, by lane."""

    express: Pace
    bulk: Pace


class System(Model):
    """The workers of the product, and ways to publish."""

    def __init__(
        self, believed: int, limits: Limits | None = None, *, seed: int = 0, cold: bool = False
    ) -> None:
        super().__init__(believed, limits, seed=seed, cold=cold)
        self._start_workers()

    def _start_workers(self) -> None:
        self.ledger = stores(self.dynamodb).ledger
        self.posts = stores(self.dynamodb).posts
        self.edges_table = stores(self.dynamodb).edges
        self.publishers = stores(self.dynamodb).publishers
        self.segments = Lanes(express=self.lanes[names.EXPRESS], bulk=self.lanes[names.BULK])
        counts = stores(self.dynamodb).post_counts(RATE)
        self.publishing = Publishing(self.posts, self.ledger, RETENTION_DAYS, counts)
        self.lookup = Lookup(
            self.ledger, self.posts, self.publishers, self.edges_table, self._together
        )
        self.transport = ModelTransport(
            self.scheduler, self.untimed_dynamodb, self.counts, self.in_a_row
        )
        self.delivering = Delivering(self.lookup, self.ledger, self.segments, self.transport)
        planners, deliverers = Environments(self, self._planner), Environments(self, self._paces)
        self.map(names.PUBLISH, planners, self._plan)
        self.map(names.EXPRESS, deliverers, self._deliver_express)
        self.map(names.BULK, deliverers, self._deliver_bulk)

    def publish(self, publisher_id: str, ref_id: str) -> None:
        """Start to publish a post of 1 KB, as over HTTP."""
        self.scheduler.start(lambda: self.publish_now(publisher_id, ref_id))

    def publish_now(self, publisher_id: str, ref_id: str) -> None:
        """Publish in the current task, until the answer."""
        self.accept(NewPost(publisher_id=publisher_id, ref_id=ref_id, body=Body(BODY, "")))
        self.accepted[ref_id] = self.scheduler.now

    def accept(self, new: NewPost) -> None:
        """What the API does before it answers."""
        now, queue = self.scheduler.clock.now_ms(), self.lanes[names.PUBLISH]
        self.publishing.publish(new, accepted_at=now, plan_queue=queue)

    def send(self, *posts: tuple[str, str]) -> None:
        """Start to send posts (publisher, post) as another service does, in batches of ten."""
        messages = [
            Message(
                {
                    "version": contract.VERSION,
                    "type": contract.POST_PUBLISHED,
                    "publisher_id": publisher_id,
                    "ref_id": ref_id,
                    "body": json.loads(BODY),
                },
                group=publisher_id,
            )
            for publisher_id, ref_id in posts
        ]

        def service() -> None:
            self.lanes[names.PUBLISH].send(*messages)
            self.accepted |= {ref_id: self.scheduler.now for _, ref_id in posts}

        self.scheduler.start(service)

    def run_until_complete(self, ref_id: str) -> None:
        """Go on until the ledger says that a fan-out is complete."""
        with self.virtual_time():
            self.scheduler.run(lambda: self.is_complete(ref_id))

    def _together(self, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
        return together(self.dynamodb, Threads(self.scheduler, len(calls)), *calls)

    def _planner(self) -> Planner:
        """A warm environment of PLAN, as in functions/plan.py."""
        loop = Loop(self.transport, join_seconds=JOIN_SECONDS)
        threads = Threads(self.scheduler, AT_A_TIME)
        lane = self.budget.publish
        return Planner(
            Planning(self.lookup, self.ledger, self.edges_table, self.segments, loop, threads),
            Pace(lane.worker_rate, burst=self.budget.publish_burst, slowest=lane.slowest_rate),
        )

    def _plan(self, planner: Planner, message: Arrived) -> None:
        outcome = planner.planning.plan(
            self.fanout_of(message),
            publisher_id=message.group,
            pace=planner.pace,
            redelivered=message.redelivered,
            stop_at=self.scheduler.now + names.PLAN.seconds - HAND_BACK_SECONDS,
        )
        self.counts.outcomes[f"{outcome.what} by PLAN"] += 1

    def fanout_of(self, message: Arrived) -> str:
        """The id of the fan-out that PLAN is to plan; accepts posts of other services first."""
        content = message.content
        if content["type"] == contract.FANOUT_PLAN:
            return PlanFanout.from_content(content).fanout_id
        body = Body(json.dumps(content["body"]), "")
        post = NewPost(publisher_id=content["publisher_id"], ref_id=content["ref_id"], body=body)
        return self.publishing.accept(post, accepted_at=message.sent_at).ref_id

    def _paces(self) -> Paces:
        """The paces of a new environment of DELIVER, as in functions/deliver.py."""
        express, bulk, burst = self.budget.express, self.budget.bulk, self.budget.express_burst
        return Paces(
            express=Pace(express.worker_rate, burst=burst, slowest=express.slowest_rate),
            bulk=Pace(bulk.worker_rate, burst=MAX_PUTS, slowest=bulk.slowest_rate),
        )

    def _deliver_express(self, paces: Paces, message: Arrived) -> None:
        self._deliver(paces.express, message)

    def _deliver_bulk(self, paces: Paces, message: Arrived) -> None:
        self._deliver(paces.bulk, message)

    def _deliver(self, pace: Pace, message: Arrived) -> None:
        outcome = self.delivering.deliver(
            DeliverSegment.from_content(message.content),
            publisher_id=message.group,
            pace=pace,
            redelivered=message.redelivered,
            sent_at=0,  # SWEEP does not run here
            stop_at=self.scheduler.now + names.DELIVER.seconds - HAND_BACK_SECONDS,
        )
        self.counts.outcomes[outcome.what] += 1
