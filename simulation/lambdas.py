"""The real doors on simulated machines: clock and calls (callers.py) are ours, all else is theirs.

A Lambda environment is a set of door modules of its own, as two environments share no memory.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from types import ModuleType
from typing import Any, cast

from aws_lambda_powertools.metrics.provider.cloudwatch_emf import cloudwatch

from aws_model.lambda_events import Context
from aws_model.sqs.messages import ACCOUNT
from fanfold import clock, names
from fanfold.aws import boto, curl
from fanfold.aws.retries import ATTEMPTS
from fanfold.fanout import backlog, deliver, plan, policy, segments, transport_boto3
from fanfold.fanout.pacing import Pace
from fanfold.follows import edges_table, growth, ring_reader, sharding
from fanfold.settings import Settings
from simulation.clients import BotoClient, UnthreadedTransport, Wires, running
from simulation.faults import SHARD_WRITES
from simulation.scheduler import Crash

BASE_URL = f"http://127.0.0.1/{ACCOUNT}"
# Queues of which SWEEP asks whether they are paused.
MAPPED = (names.PUBLISH, names.EXPRESS, names.BULK)
MAX_IN_FLIGHT = 3
MAX_PUTS = 2
# How many of the environments in which an invocation is broken off are ended with it.
ENDED_WITH_IT = 0.5
# What a worker sends at once after a rest: so little that its pace matters.
BURST_ENTRIES = 4


@dataclass(eq=False)
class Environment:
    """One environment of a function. It runs one invocation at a time."""

    door: ModuleType
    wires: tuple[Wires, ...]
    is_busy: bool = False
    starts: int = 0

    @property
    def name(self) -> str:
        """Another one after each cold start."""
        return f"{self.door.__name__} {id(self)} {self.starts}"

    def start_cold(self) -> None:
        """Forget what a warm environment knows."""
        self.starts += 1
        reading = getattr(self.door, "reading", None)
        if reading is not None:
            reading.hydration.cache.clear()
        relations = getattr(self.door, "relations", None)
        if relations is not None:
            relations.edges.forget()
        paces = getattr(self.door, "PACES", {})
        paces.update((queue, Pace(running.now.worker_rate, BURST_ENTRIES)) for queue in paces)
        for each in self.wires:
            each.in_flight.take_all()


@dataclass
class Machines:
    """All environments; they are made once and serve one run after the other."""

    environments: dict[tuple[str, str], list[Environment]] = field(default_factory=dict)

    def invoke(self, function: str, event: dict[str, Any], *, seconds: float) -> Any:
        """Run a door on a free environment; raises `Crash` if that ends or takes too long."""
        world = running.now
        environment = self._free(function, world.transport)
        actor = world.stage.current
        actor.deadline = world.clock.monotonic() + seconds
        actor.skew_ms, actor.machine = world.faults.skew_ms(), environment.name
        actor.may_crash = environment.is_busy = True
        try:
            answer = environment.door.handler(event, Context(actor.deadline, clock.monotonic))
            if not _is_failure(answer):
                world.relations.settled(actor, world.clock.now_ms())
            return answer
        except Crash:
            # What nobody catches ends the invocation; it need not end the environment.
            is_late = world.clock.monotonic() >= actor.deadline
            if is_late or world.random.random() < ENDED_WITH_IT:
                environment.start_cold()
            raise
        finally:
            world.relations.stopped(actor)
            actor.deadline, actor.skew_ms, actor.machine = float("inf"), 0, ""
            actor.may_crash = actor.is_dying = environment.is_busy = False

    def restart(self) -> None:
        """Make every environment cold and free, for another run."""
        policy.RETRY_ENTRIES = running.now.retry_entries
        for environment in (each for known in self.environments.values() for each in known):
            environment.is_busy = False
            environment.start_cold()

    def _free(self, function: str, transport: str) -> Environment:
        known = self.environments.setdefault((function, transport), [])
        for environment in known:
            if not environment.is_busy:
                return environment
        known.append(_load(function, transport))
        known[-1].start_cold()
        return known[-1]


def _is_failure(answer: Any) -> bool:
    """Whether a door says that it could not do all that it was asked for."""
    return bool(answer) and (
        answer.get("statusCode", 200) >= 500 or bool(answer.get("batchItemFailures"))
    )


def _load(function: str, transport: str) -> Environment:
    """Import a door and what it shares with others anew, without touching what is imported."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_door(name)}
    os.environ["TRANSPORT"] = transport
    _forget_wires()
    try:
        door = importlib.import_module(f"functions.{function}")
        wires = cast("tuple[Wires, ...]", tuple(map(curl.connections, (curl.DYNAMODB, curl.SQS))))
        return Environment(door, wires)
    finally:
        for name in [name for name in sys.modules if _is_door(name)]:
            del sys.modules[name]
        sys.modules.update(before)


def _forget_wires() -> None:
    """The next to ask for connections or clients of libcurl gets its own."""
    for cached in (curl.connections, curl.dynamodb, curl.sqs):
        cached.cache_clear()


def _is_door(name: str) -> bool:
    return name == "functions" or name.startswith("functions.")


@cache
def machines() -> Machines:
    """The machines of this process. Loading a door takes a while, so they outlive a run."""
    return Machines()


def settings() -> Settings:
    """The settings of the simulated stack: tables and queues by their plain names."""
    tables = {table.setting: table.name for table in names.TABLES}
    queues = {queue.url_setting: f"{BASE_URL}/{queue.name}" for queue in names.QUEUES}
    dlqs = {queue.dlq_url_setting: f"{BASE_URL}/{queue.name}Dlq" for queue in names.QUEUES}
    mappings = {f"{queue.name.lower()}_mapping": queue.name for queue in MAPPED}
    return Settings(**{**tables, **queues, **dlqs, **mappings})  # type: ignore[arg-type]


def _boto_dynamodb(attempts: int = ATTEMPTS, connections: int | None = None) -> BotoClient:
    return BotoClient("dynamodb", attempts, is_timed=connections is None)


@contextmanager
def installed() -> Iterator[Machines]:
    """Put our clock and our callers in the place of the real ones, for a while."""
    ours: list[tuple[Any, str, Any]] = [
        (clock, "now_ms", lambda: running.now.now_ms()),
        (clock, "monotonic", lambda: running.now.clock.monotonic()),
        (clock, "sleep", lambda seconds: running.now.stage.give_way(seconds)),
        (clock, "chance", lambda: running.now.random.random()),
        (clock, "new_id", lambda: f"{running.now.random.getrandbits(128):032x}"),
        (boto, "dynamodb", _boto_dynamodb),
        (boto, "threads", lambda _count: None),
        (boto, "sqs", lambda: BotoClient("sqs", ATTEMPTS)),
        (boto, "lambda_", lambda: BotoClient("lambda", ATTEMPTS)),
        (cloudwatch, "print", lambda *_, **__: None),
        (transport_boto3, "Boto3Transport", UnthreadedTransport),
        (curl, "Connections", Wires),
        # Small enough that a dozen followers are many segments, pages and chunks.
        (segments, "SEGMENT_FOLLOWERS", 4),
        (plan, "SAMPLE_EDGES", 4),
        (plan, "LOW_WATER", 2),
        (backlog, "RingRead", partial(ring_reader.RingRead, low_water=4)),
        (edges_table, "PAGE_EDGES", 3),
        (backlog, "MAX_PUTS", MAX_PUTS),
        (policy, "MAX_STRAGGLERS", 2),
        (policy, "RETRY_ENTRIES", policy.RETRY_ENTRIES),  # each world has its own
        (sharding, "PARTITION_WRITES", SHARD_WRITES),
        (growth, "SAMPLE", 1),
        (growth, "WAIT_SECONDS", (0.5, 1.0)),
        (deliver, "Delivery", partial(policy.Delivery, max_in_flight=MAX_IN_FLIGHT)),
    ]
    theirs = [(home, name, getattr(home, name, None)) for home, name, _ in ours]
    environment = dict(os.environ)
    os.environ.update(
        settings().to_env(), POWERTOOLS_SERVICE_NAME="simulated", AWS_REGION="eu-central-1"
    )
    logging.disable(logging.CRITICAL)
    try:
        for home, name, value in ours:
            setattr(home, name, value)
        with warnings.catch_warnings():
            # All environments of a process share Powertools' metrics: one may flush another's.
            warnings.filterwarnings("ignore", "No application metrics", UserWarning)
            yield machines()
    finally:
        for home, name, value in theirs:
            if value is None:
                delattr(home, name)
            else:
                setattr(home, name, value)
        _forget_wires()
        logging.disable(logging.NOTSET)
        os.environ.clear()
        os.environ.update(environment)
        running.world = None


def queue_url(queue: names.Queue) -> str:
    """The URL of a simulated queue."""
    return f"{BASE_URL}/{queue.name}"


def dlq_url(queue: names.Queue) -> str:
    """The URL of a simulated dead-letter queue."""
    return f"{BASE_URL}/{queue.name}Dlq"
