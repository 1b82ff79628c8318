"""The whole system on one virtual clock: clients, doors, queues, workers, and the sweeper's minute.

A run has three parts. The script: clients follow, publish, retract and read while faults strike.
The calm: no more faults, and the system has time to mend what they broke. Then promise.py compares
what was acknowledged with what is there.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from botocore.exceptions import ClientError

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import Bucket
from aws_model.dynamodb.database import Database
from aws_model.dynamodb.tables import Hooks
from aws_model.lambda_events import sqs_event
from aws_model.sqs import client as sqs
from aws_model.sqs.client import Queues
from aws_model.sqs.messages import Message
from aws_model.sqs.queues import Hooks as QueueHooks
from fanfold import contract, names, times
from fanfold.aws.retries import is_throttle
from fanfold.fanout.pacing import BURST_SECONDS
from fanfold.ids import split_sort_key
from simulation.clients import running
from simulation.faults import Faults, HotPartitions, crowd
from simulation.lambdas import BURST_ENTRIES, MAX_IN_FLIGHT, MAX_PUTS, dlq_url, machines, queue_url
from simulation.levels import Levels
from simulation.observers import Relations, pair_of
from simulation.scheduler import Actor, Crash, Stage
from simulation.schemas import schema_of

SWEEP_EVERY_SECONDS = 60.0
MOST_WORKERS = 3  # of one queue at a time
# SWEEP's ten rounds of six minutes, and the redeliveries between them.
CALM_SECONDS = 4 * 60 * 60.0
# A worker that has changed a row so lately may well be about to change it again.
STILL_AT_IT_SECONDS = 30.0
# PLAN knows a plan for its own by the millisecond; two that plan in the same one both send it.
AT_ONCE_SECONDS = 0.1
MOST_TURNS = 200_000
TRACE_LINES = 4_000
# In so many of the runs a publisher's followers are more than one write shard takes.
CROWDED = 0.2


class Endless(AssertionError):
    """The run does not come to rest."""


@dataclass(eq=False)
class Operation:
    """Something that a client did, from when to when; `done` is infinite without an answer."""

    what: str
    user: str
    subject: str  # the publisher or the post
    begun: int
    began_ms: int
    done: float = math.inf
    done_ms: float = math.inf
    detail: Any = None


@dataclass
class Mappings:
    """The event source mappings, as Lambda's API shows them: by their id, our queue's name."""

    paused: set[str] = field(default_factory=set)

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, str]:  # noqa: N803 - AWS's name
        """Whether the queue feeds its function."""
        return {"UUID": UUID, "State": "Disabled" if UUID in self.paused else "Enabled"}


@dataclass
class World:
    """One run."""

    seed: int
    transport: str = ""  # one of names.TRANSPORTS; by default the seed's
    clock: Clock = field(default_factory=Clock)
    history: list[Operation] = field(default_factory=list)
    trace: deque[str] = field(default_factory=lambda: deque(maxlen=TRACE_LINES))
    noise: set[str] = field(default_factory=set)  # bodies that belong in the dead-letter queue
    seen: list[str] = field(default_factory=list)  # violations that show only while they happen
    relations: Relations = field(default_factory=Relations)
    ended_ms: dict[str, float] = field(default_factory=dict)  # a post's last write; copies go on
    levels: Levels = field(default_factory=Levels)
    mended: int = 0  # writes and messages of SWEEP
    asked: int = 0  # entries put, each time that one is, or would be

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        # A random of its own, so that a run differs in nothing else.
        self.transport = self.transport or Random(f"{self.seed}").choice(names.TRANSPORTS)
        self.faults = Faults(Random(self.seed + 1), self.clock)
        self.stage = Stage(self.clock, self.random)
        self._make_database()
        self._make_queues()
        self.mappings = Mappings()
        self._workers = dict.fromkeys(names.QUEUES, 0)
        self._next_sweep = SWEEP_EVERY_SECONDS
        # In some worlds DELIVER has little more time than it needs to hand back.
        self.time_pressure = self.random.choice((1.0, 1.0, 0.354, 0.3515))
        # In some, followers come faster than a write shard takes them.
        self.is_crowded = self.random.random() < CROWDED
        if self.is_crowded:
            self.meter.throttle = crowd(self.clock, self.random)
        # In some, each of its workers may write a few entries a second only, or send a few again.
        self.worker_rate = self.random.choice((10_000.0, 10_000.0, 20.0, 2.0))
        self.retry_entries = self.random.choice((1_600, 1_600, 4))
        self.was_paused = self.was_planned_twice = False
        self._planned: dict[tuple[str, int], float] = {}
        self._paces: dict[str, Bucket] = {}

    def _make_database(self) -> None:
        lags = (0.0, 0.0, 0.1, 5.0)
        hooks = Hooks(
            read_lag=lambda _table: self.random.choice(lags),
            index_lag=lambda _table, _index: self.random.choice(lags),
            unprocessed=self.faults.unprocessed,
            shuffle=self.random.shuffle,
        )
        self.meter = HotPartitions(is_hot=self.faults.is_hot, injected=self.faults.injected)
        self.database = Database(self.clock, hooks, self.meter)
        self.database.create(*(schema_of(table) for table in names.TABLES))
        self.dynamodb = dynamodb.Client(self.database, validates=False)

    def _make_queues(self) -> None:
        hooks = QueueHooks(
            random=self.random,
            is_duplicated=lambda _random, _queue, _message: self.faults.strikes("duplicated"),
            fail=self.faults.unsent,
        )
        self.queues = Queues(self.clock, hooks)
        for queue in names.QUEUES:
            self.queues.create_with_dlq(
                queue.name,
                max_receives=queue.max_receives,
                visibility_seconds=queue.visibility_seconds,
            )
        # Looked at before every turn.
        self._lanes = {queue.name: self.queues.queue(queue_url(queue)) for queue in names.QUEUES}
        self.sqs = sqs.Client(self.queues, validates=False)

    # Time and telling

    def now_ms(self) -> int:
        """What the clock of the current actor's machine shows."""
        return self.clock.now_ms() + self.stage.current.skew_ms

    def note(self, what: str, detail: object = "") -> None:
        """Put a line into the trace."""
        self.trace.append(
            f"{self.stage.turns:6d} {self.clock.monotonic():10.3f} "
            f"{self.stage.current.name:24s} {what} {detail}"
        )

    def watch(self, operation: str, request: dict[str, Any]) -> None:
        """Look at a call that is about to be made, for what is gone once a run is over."""
        if operation == "batch_write_item":
            self._watch_pace(len(request["RequestItems"].get(names.TIMELINES.name, ())))
        if operation == "put_item" and request["TableName"] == names.FOLLOWERS.name:
            self._watch_edge(request["Item"])
        by_sweep = self.stage.current.name == "sweep"
        if by_sweep and (operation == "send_message_batch" or self._is_late(operation, request)):
            self.mended += 1
        if operation != "send_message_batch":
            return
        queue = self.queues.queue(request["QueueUrl"]).name
        if by_sweep and queue in self.mappings.paused:
            self.seen.append(f"SWEEP sends to {queue}, which is paused.")
        for entry in request["Entries"]:
            content = json.loads(entry["MessageBody"])
            if content["type"] == contract.SEGMENT_DELIVER:
                self._watch_segment(content)

    def applied(self, operation: str, request: dict[str, Any]) -> None:
        """Look at a call that has just taken effect."""
        table, actor = request.get("TableName"), self.stage.current
        if operation == "transact_write_items":
            self.relations.changed(request, actor, self.clock.now_ms())
        elif operation == "update_item" and table == names.PUBLISHERS.name:
            self.seen += self.levels.changed(actor.machine, request, self.clock.monotonic())
        elif operation == "update_item" and ":complete" in request["ExpressionAttributeValues"]:
            self.ended_ms[request["Key"]["fanout_id"]["S"]] = self.clock.now_ms()
        elif operation == "batch_write_item":
            for put in request["RequestItems"].get(names.TIMELINES.name, ()):
                ref_id = split_sort_key(put["PutRequest"]["Item"]["sort_key"]["S"])[1]
                self.ended_ms[ref_id] = self.clock.now_ms()
        elif operation == "put_item" and table == names.FOLLOWERS.name:
            self._count_follow(request)

    def refused(self, operation: str, request: dict[str, Any], error: ClientError) -> None:
        """Look at a call that was refused."""
        self.levels.refused(self.stage.current.machine, request, error)
        is_put = operation == "put_item" and request["TableName"] == names.FOLLOWERS.name
        if is_put and not is_throttle(error):
            self._count_follow(request)  # the edge is there already

    def _count_follow(self, request: dict[str, Any]) -> None:
        self.levels.followed(pair_of(request["Item"])[1], self.clock.monotonic())

    def _watch_pace(self, entries: int) -> None:
        """Whether this worker's entries on this lane keep to its rate, but for what is in flight.

        What is watched is when a call takes effect; it was sent some time before.
        """
        self.asked += entries
        rate = self.worker_rate
        burst = max(BURST_ENTRIES, rate * BURST_SECONDS)
        most = burst + MAX_IN_FLIGHT * MAX_PUTS
        now, actor = self.clock.monotonic(), self.stage.current
        bucket = self._paces.setdefault(
            f"{actor.machine} {actor.name}", Bucket(rate, most, most, now)
        )
        if not bucket.admits(entries, now):
            self.seen.append(f"{actor.name} puts more entries than {rate} a second.")
        bucket.take(entries)

    def _watch_edge(self, edge: dict[str, Any]) -> None:
        """Whether an edge is put by who looked before the row was changed."""
        user, publisher = pair = pair_of(edge)
        key = {"user_id": {"S": user}, "publisher_id": {"S": publisher}}
        row = self._row(names.FOLLOWING, key)
        if row and int(edge["version"]["N"]) < int(row["version"]["N"]):
            self.relations.put_late(pair, self.stage.current, self.clock.now_ms())

    def _is_late(self, operation: str, request: dict[str, Any]) -> bool:
        """Whether SWEEP completes what nobody else is just completing."""
        if operation != "update_item":
            return False
        row = self._row(names.FANOUTS, request["Key"])
        changed_ms = times.to_ms(row["changed_at"]["S"])
        return self.clock.now_ms() - changed_ms > STILL_AT_IT_SECONDS * 1000

    def _row(self, table: names.Table, key: dict[str, Any]) -> dict[str, Any]:
        answer = self.dynamodb.get_item(TableName=table.name, Key=key, ConsistentRead=True)
        row: dict[str, Any] = answer.get("Item", {})
        return row

    def _watch_segment(self, content: dict[str, Any]) -> None:
        if self.stage.current.name.startswith("plan"):
            now = self.clock.monotonic()
            last = self._planned.setdefault((content["fanout_id"], content["segment"]), now)
            self.was_planned_twice |= 0 < now - last < AT_ONCE_SECONDS
        row = self._row(names.FANOUTS, {"fanout_id": {"S": content["fanout_id"]}})
        if not row:
            self.seen.append(f"A segment of {content['fanout_id']} is sent, unknown to the ledger.")
            return
        segment = str(content["segment"])
        known = row.get("resume", {}).get("M", {}).get(segment, {}).get("S", "")
        is_pending = segment in row.get("pending", {}).get("NS", [])
        is_rest = content["position"] and content["hops"] == 0
        if is_pending and is_rest and content["position"] > known[: len(content["position"])]:
            self.seen.append(
                f"A rest of {content['fanout_id']} is sent that the ledger knows nothing of."
            )

    # Clients

    def act(
        self, what: str, user: str, subject: str, deed: Callable[[Operation], bool]
    ) -> Operation:
        """Do something until it is answered or given up; it may take effect all the same."""
        done = Operation(what, user, subject, self.stage.turns, self.clock.now_ms())
        self.history.append(done)
        for _ in range(self.random.choice((1, 3, 6))):
            if deed(done):
                done.done, done.done_ms = self.stage.turns, self.clock.now_ms()
                self.note(f"acknowledged: {what} {user} {subject}")
                return done
            self.stage.give_way(self.random.uniform(0, 2))
        self.note(f"given up: {what} {user} {subject}")
        return done

    def call(
        self,
        user: str,
        route: contract.Route,
        *,
        path: dict[str, str] | None = None,
        body: Any = None,
        query: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """An HTTP request as API Gateway hands it to the door; 502 if the door dies of it."""
        event: dict[str, Any] = {
            "version": "2.0",
            "routeKey": route.key,
            "headers": {},
            "pathParameters": path or {},
            "queryStringParameters": query or {},
            "requestContext": {
                "authorizer": {"jwt": {"claims": {"sub": user}}},
                "requestId": "simulated",
                "timeEpoch": self.clock.now_ms(),
            },
            "body": None if body is None else json.dumps(body),
            "isBase64Encoded": False,
        }
        try:
            answer = machines().invoke(route.door, event, seconds=names.API.seconds)
        except Crash:
            self.faults.injected["door died"] += 1
            return 502, None
        content = json.loads(answer["body"]) if answer.get("body") else None
        return answer["statusCode"], content

    def send(self, content: Any) -> None:
        """Another service sends a message to the publish queue; SQS accepts it."""
        body = content if isinstance(content, str) else json.dumps(content)
        self.queues.queue(queue_url(names.PUBLISH))  # it must be there
        self.sqs.send_message(
            QueueUrl=queue_url(names.PUBLISH), MessageBody=body, MessageGroupId="other"
        )

    # The run

    def run(self, script: Callable[[World], None]) -> None:
        """Play the script under faults, then come to rest without them."""
        running.world = self
        machines().restart()
        try:
            script(self)
            self._play(until=lambda: not self._clients())
            self.faults.are_on = False
            end = self.clock.monotonic() + CALM_SECONDS
            self._play(until=lambda: self._is_at_rest() or self.clock.monotonic() > end)
        finally:
            running.world = None

    def _clients(self) -> list[Actor]:
        return [actor for actor in self.stage.actors if actor.name.startswith("client")]

    def _play(self, until: Callable[[], bool]) -> None:
        while not until():
            if self.stage.turns > MOST_TURNS:
                raise Endless(f"After {MOST_TURNS} turns the run has not come to rest.")
            self._start_sweep()
            choices: list[Actor | names.Queue] = [*self.stage.ready(), *self._feeding()]
            if choices:
                chosen = self.random.choice(choices)
                if isinstance(chosen, Actor):
                    self._turn(chosen)
                else:
                    self._start_worker(chosen)
            else:
                self.stage.turns += 1
                self.clock.advance_to(self._next_event())

    def _open(self) -> Iterator[names.Queue]:
        """The queues that are not paused and have a worker free."""
        for queue, busy in self._workers.items():
            if busy < MOST_WORKERS and queue.name not in self.mappings.paused:
                yield queue

    def _feeding(self) -> list[names.Queue]:
        """Those of them that have a message."""
        return [queue for queue in self._open() if self._lanes[queue.name].waiting()]

    def _turn(self, actor: Actor) -> None:
        self.stage.turn(actor, crash=actor.may_crash and self.faults.strikes("crashed"))

    def _next_event(self) -> float:
        changes = (self._lanes[queue.name].next_change() for queue in self._open())
        start = self.clock.now - self.clock.monotonic()
        shown = [change - start for change in changes if change is not None]
        # A hair later, so that what is due by then is not missed by a rounding error.
        return min([self.stage.next_wake(), self._next_sweep, *shown]) + 1e-6

    def _start_sweep(self) -> None:
        if self.clock.monotonic() < self._next_sweep:
            return
        self._next_sweep = self.clock.monotonic() + SWEEP_EVERY_SECONDS

        def sweep() -> None:
            try:
                machines().invoke("sweep", {}, seconds=names.SWEEP.seconds)
            except (Crash, Exception) as error:  # noqa: BLE001 - Lambda would log it, and go on
                self.note(f"sweep failed: {error!r}")

        self.stage.enter("sweep", sweep)

    def _start_worker(self, queue: names.Queue) -> None:
        url = queue_url(queue)
        messages = self.sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=self.random.randint(1, queue.batch_size),
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        if not messages:
            return
        self._workers[queue] += 1

        def work() -> None:
            try:
                failed = self._handle(queue, messages)
                for message in messages:
                    if message["MessageId"] not in failed:
                        self.sqs.delete_message(
                            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"]
                        )
            finally:
                self._workers[queue] -= 1

        self.stage.enter(f"{queue.consumer.name} on {queue.name}", work)

    def _handle(self, queue: names.Queue, messages: list[Any]) -> set[str]:
        """Ids of the messages that must come again."""
        event = sqs_event(queue.name, messages)
        try:
            is_pressed = queue.consumer == names.DELIVER and self.faults.are_on
            seconds = queue.consumer.seconds * (self.time_pressure if is_pressed else 1.0)
            answer = machines().invoke(queue.consumer.name, event, seconds=seconds)
        except (Crash, Exception) as error:  # noqa: BLE001 - the whole batch comes again
            self.note(f"the worker ended: {error!r}")
            return {message["MessageId"] for message in messages}
        return {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}

    # At rest

    def _is_at_rest(self) -> bool:
        if self.stage.actors or any(self._workers.values()):
            return False
        if any(lane.messages() for lane in self._lanes.values()):
            return False
        return not any("open_fanout" in row and _is_moving(row) for row in self.rows(names.FANOUTS))

    def rows(self, table: names.Table) -> list[dict[str, Any]]:
        """All items of a table, in DynamoDB's form."""
        found: list[dict[str, Any]] = []
        request: dict[str, Any] = {"TableName": table.name, "ConsistentRead": True}
        while True:
            page = self.dynamodb.scan(**request)
            found += page["Items"]
            if "LastEvaluatedKey" not in page:
                return found
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def dead_letters(self) -> list[tuple[names.Queue, Message]]:
        """Every dead letter, with the queue that it could not be taken from."""
        return [
            (queue, message)
            for queue in names.QUEUES
            for message in self.queues.queue(dlq_url(queue)).messages()
        ]


def _is_moving(row: dict[str, Any]) -> bool:
    return str(row["state"]["S"]) != "stalled"


def accepted_ms(row: dict[str, Any]) -> int:
    """When a post was accepted, in epoch milliseconds; 0 if the row does not say."""
    return times.to_ms(row["accepted_at"]["S"] or times.to_text(0))
