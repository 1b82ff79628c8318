"""The real doors on simulated machines: clock, clients and transport are ours, all else is theirs.

A Lambda environment is a set of door modules of its own, as two environments share no memory.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools.metrics.provider.cloudwatch_emf import cloudwatch

from fanfold import aws, clock, delivery, followers, names, plan, segments, transport_boto3
from fanfold.delivery import Delivery, Done, Failed, HandBack, Page, Read, Send, Wait
from fanfold.followers import Followers
from fanfold.ring import follower_of
from fanfold.settings import Settings
from fanfold.timelines import Entry, Timelines
from simulation import dynamodb, sqs
from simulation.actors import Crash

if TYPE_CHECKING:
    from simulation.world import World

BASE_URL = f"http://127.0.0.1/{sqs.ACCOUNT}"
# Where a world keeps the client of a service.
CLIENTS = {"dynamodb": "dynamodb", "sqs": "sqs", "lambda": "mappings"}
# Queues of which SWEEP asks whether they are paused.
MAPPED = (names.PUBLISH, names.EXPRESS, names.BULK)
# What the SDK does on its own (see aws.py), without its pauses.
PASSING_ATTEMPTS = aws.ATTEMPTS


@dataclass
class Running:
    """The world that the machines are in just now."""

    world: World | None = None

    @property
    def now(self) -> World:
        """The world; only while one runs."""
        assert self.world is not None
        return self.world


running = Running()


class Calls:
    """A client whose every call ends the actor's turn, and may fail."""

    def __init__(self, service: str, attempts: int) -> None:
        self.service = service
        self.attempts = attempts

    @property
    def exceptions(self) -> Any:
        """The client's exceptions."""
        return self._client.exceptions

    @property
    def _client(self) -> Any:
        return getattr(running.now, CLIENTS[self.service])

    def get_paginator(self, operation: str) -> Any:
        """Botocore's paginator, over our calls."""
        return dynamodb.Client.get_paginator(self, operation)  # type: ignore[arg-type]

    def __getattr__(self, operation: str) -> Any:
        return partial(self._try, operation)

    def _try(self, operation: str, **request: Any) -> Any:
        if operation == "transact_write_items":  # as botocore does, one token for all attempts
            request["ClientRequestToken"] = clock.new_id()
        for attempt in range(1, self.attempts + 1):
            try:
                return self._once(operation, request)
            except Exception as error:
                if attempt == self.attempts or not aws.is_passing(error):
                    raise
        raise AssertionError("unreachable")

    def _once(self, operation: str, request: dict[str, Any]) -> Any:
        world = running.now
        world.stage.give_way(world.faults.seconds())
        world.note(f"{self.service}.{operation}", request)
        world.watch(operation, request)
        world.faults.before(self.service, operation)
        answer = getattr(self._client, operation)(**request)
        world.faults.after(self.service, operation)
        world.stage.give_way()
        return answer


@dataclass(frozen=True)
class OneAtATime:
    """A transport that carries out one action after the other, in any order."""

    followers: Followers
    timelines: Timelines

    def carry_out(self, delivery: Delivery, *, entry: Entry, hi: str) -> Done | HandBack | Failed:
        """Deliver `entry` to its publisher's followers below the ring position `hi`."""
        world = running.now
        under_way: list[Read | Send] = []
        while True:
            match delivery.next(clock.monotonic()):
                case Read() | Send() as action:
                    under_way.append(action)
                case Wait(until):
                    if under_way:
                        action = under_way.pop(world.random.randrange(len(under_way)))
                        self._do(action, delivery, entry, hi)
                    else:
                        world.stage.give_way(max(0.0, until - clock.monotonic()))
                case end:
                    return end

    def _do(self, action: Read | Send, delivery: Delivery, entry: Entry, hi: str) -> None:
        try:
            if isinstance(action, Read):
                page: Page = self.followers.page(entry.publisher_id, after=action.after, hi=hi)
                delivery.page_read(page)
            else:
                left = self.timelines.push(entry, [follower_of(edge) for edge in action.edges])
                delivery.batch_answered(action.batch, left, now=clock.monotonic())
        except Exception as error:  # noqa: BLE001 - reported, and raised by the use case
            passing, now = aws.is_passing(error), clock.monotonic()
            if isinstance(action, Read):
                delivery.read_failed(error, retryable=passing, now=now)
            else:
                delivery.batch_failed(action.batch, error, retryable=passing, now=now)


@dataclass(frozen=True)
class Context:
    """Lambda's context, as far as the doors look at it."""

    deadline: float
    function_name: str = "simulated"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = "arn:aws:lambda:eu-central-1:123456789012:function:simulated"
    aws_request_id: str = "00000000-0000-0000-0000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        """Until the function is ended."""
        return max(0, int((self.deadline - clock.monotonic()) * 1000))


@dataclass(eq=False)
class Environment:
    """One environment of a function. It runs one invocation at a time."""

    function: str
    door: ModuleType
    is_busy: bool = False

    def start_cold(self) -> None:
        """Forget what a warm environment knows."""
        reading = getattr(self.door, "reading", None)
        if reading is not None:
            reading.hydration.cache.clear()


@dataclass
class Machines:
    """All environments; they are made once and serve one run after the other."""

    environments: dict[str, list[Environment]] = field(default_factory=dict)

    def invoke(self, function: str, event: dict[str, Any], *, seconds: float) -> Any:
        """Run a door on a free environment; raises `Crash` if that ends or takes too long."""
        world = running.now
        environment = self._free(function)
        actor = world.stage.current
        actor.deadline = world.clock.monotonic() + seconds
        actor.skew_ms = world.faults.skew_ms()
        actor.may_crash = environment.is_busy = True
        try:
            return environment.door.handler(event, Context(actor.deadline))
        except BaseException as error:
            if isinstance(error, Crash):
                environment.start_cold()
            raise
        finally:
            actor.deadline, actor.skew_ms = float("inf"), 0
            actor.may_crash = actor.is_dying = environment.is_busy = False

    def restart(self) -> None:
        """Make every environment cold and free, for another run."""
        for environment in (each for known in self.environments.values() for each in known):
            environment.is_busy = False
            environment.start_cold()

    def _free(self, function: str) -> Environment:
        known = self.environments.setdefault(function, [])
        for environment in known:
            if not environment.is_busy:
                return environment
        known.append(Environment(function, _load(function)))
        return known[-1]


def _load(function: str) -> ModuleType:
    """Import a door and what it shares with others anew, without touching what is imported."""
    before = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_door(name)}
    try:
        return importlib.import_module(f"functions.{function}")
    finally:
        for name in [name for name in sys.modules if _is_door(name)]:
            del sys.modules[name]
        sys.modules.update(before)


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


@contextmanager
def installed() -> Iterator[Machines]:
    """Put our clock, clients and transport in the place of the real ones, for a while."""
    ours: list[tuple[Any, str, Any]] = [
        (clock, "now_ms", lambda: running.now.now_ms()),
        (clock, "monotonic", lambda: running.now.clock.monotonic()),
        (clock, "sleep", lambda seconds: running.now.stage.give_way(seconds)),
        (clock, "chance", lambda: running.now.random.random()),
        (clock, "new_id", lambda: f"{running.now.random.getrandbits(128):032x}"),
        (aws, "dynamodb", lambda attempts=PASSING_ATTEMPTS, **_: Calls("dynamodb", attempts)),
        (aws, "sqs", lambda: Calls("sqs", PASSING_ATTEMPTS)),
        (aws, "lambda_", lambda: Calls("lambda", PASSING_ATTEMPTS)),
        (cloudwatch, "print", lambda *_, **__: None),
        (transport_boto3, "Boto3Transport", OneAtATime),
        # Small enough that a dozen followers are many segments, pages and chunks.
        (segments, "SEGMENT_FOLLOWERS", 4),
        (plan, "SAMPLE_EDGES", 4),
        (delivery, "CHUNK", 2),
    ]
    theirs = [(home, name, getattr(home, name, None)) for home, name, _ in ours]
    environment = dict(os.environ)
    page_limit = followers.Followers.page.__kwdefaults__
    os.environ.update(
        settings().to_env(), POWERTOOLS_SERVICE_NAME="simulated", AWS_REGION="eu-central-1"
    )
    logging.disable(logging.CRITICAL)
    followers.Followers.page.__kwdefaults__ = {**(page_limit or {}), "limit": 5}
    try:
        for home, name, value in ours:
            setattr(home, name, value)
        yield machines()
    finally:
        for home, name, value in theirs:
            if value is None:
                delattr(home, name)
            else:
                setattr(home, name, value)
        followers.Followers.page.__kwdefaults__ = page_limit
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
