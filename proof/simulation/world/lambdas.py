"""The real functions in simulated Lambda environments: only clock and clients are replaced.

Every environment has its own copy of the function's modules, because environments share no memory.
"""

from __future__ import annotations

import importlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

from aws_lambda_powertools import Metrics
from aws_lambda_powertools.metrics.provider.cloudwatch_emf.cloudwatch import (
    AmazonCloudWatchEMFProvider,
)

from fanfold import clock, contract, invariants, names
from fanfold.aws import boto, connections, curl, threads
from fanfold.aws.connections import DYNAMODB, LAMBDA, SQS
from fanfold.aws.retries import CALL
from fanfold.errors import TooManyRequests
from fanfold.fanout import backlog, batch_retries, deliver, plan, segment_size, worker_steps
from fanfold.fanout.pacing import Pace
from fanfold.fanout.transport import boto3_transport
from fanfold.follows import edges_table, follower_estimate, levels, ring_reader, sharding
from fanfold.settings import Settings
from fanfold.sweep import run_limits, silence, sweep
from fanfold.timeline import marks
from proof.model.lambda_events import Context
from proof.model.sqs.messages import ACCOUNT
from proof.simulation import stage
from proof.simulation.clients.spans import Span
from proof.simulation.faults.faults import SHARD_WRITES
from proof.simulation.observed.channels import ChannelSettings
from proof.simulation.world.aws_clients import BotoClient, UnthreadedTransport, Wires, running
from proof.simulation.world.function_modules import imported_anew
from proof.simulation.world.scheduler import Crash, Patch, clock_patches, patched

if TYPE_CHECKING:
    from proof.simulation.world.world import World

BASE_URL = f"http://127.0.0.1/{ACCOUNT}"
# Queues of which SWEEP reads whether they are paused.
MAPPED = (names.PUBLISH, names.EXPRESS, names.BULK)
MAX_IN_FLIGHT = 3
MAX_PUTS = 2
# The share of crashes of an invocation that also end its environment.
ENDS_ENVIRONMENT = 0.5
# A threshold that no publisher of a run reaches; runs with channels have their own.
BY_HAND = 1_000_000
# The burst of a worker's pace: small, so that the pace matters.
BURST_ENTRIES = 4


@dataclass(eq=False)
class Environment:
    """One execution environment of a function; it runs one invocation at a time."""

    door: ModuleType
    wires: tuple[Wires, ...]
    busy_in: World | None = None  # whose invocation it runs
    is_cold: bool = True
    starts: int = 0
    idle_since: float = 0.0  # in seconds of the scheduler
    stopped: float = 0.0  # seconds for which its monotonic clock stood still
    skew_ms: int = 0  # of its wall clock since its cold start

    @property
    def name(self) -> str:
        """Its name, new after each cold start; its first word is the function's module."""
        return f"{self.door.__name__} {id(self)} {self.starts}"

    def start_cold(self) -> None:
        """Forget all caches of a warm environment."""
        self.is_cold = False
        self.starts += 1
        self.skew_ms = running.world.faults.skew_ms()
        reading = getattr(self.door, "reading", None)
        if reading is not None:
            reading.hydration.cache.clear()
            reading.hydration.retracted.clear()
        for name in ("followers", "backfilling", "channels", "heads"):
            forget = getattr(getattr(self.door, name, None), "forget", None)
            if forget is not None:
                forget()
        if (stores := getattr(self.door, "stores", None)) is not None:
            stores.privacies.forget()
            # All use cases of the environment have this one, which is frozen.
            is_private = running.world.history.audience.is_private_by_default
            object.__setattr__(stores.privacies, "private_by_default", is_private)
        following = getattr(self.door, "following", None)
        if following is not None:
            following.edges.forget()
        self._settle_in()
        paces = getattr(self.door, "PACES", {})
        paces.update((queue, Pace(running.world.worker_rate, BURST_ENTRIES)) for queue in paces)
        for each in self.wires:
            each.in_flight.take_all()
        metrics = getattr(self.door, "metrics", None)
        if metrics is not None:
            metrics.provider.clear_metrics()

    def _settle_in(self) -> None:
        """Give the use cases the settings of this run."""
        world, days = running.world, running.world.retention_days
        entry_days = max(days, world.longest_retention_days)
        changes: dict[str, dict[str, Any]] = {"publishing": {"retention_days": days}}
        if publishing := getattr(self.door, "publishing", None):
            counts = replace(publishing.counts, rate=world.rate)
            changes["publishing"]["counts"] = counts
        if following := getattr(self.door, "following", None):
            follows = replace(following.follows, retention_days=entry_days)
            changes["following"] = {"follows": follows, "backfills": world.backfill > 0}
            changes["audience"] = changes["following"]
        if hasattr(self.door, "followers"):
            readers = names.USERS if world.has_audiences else names.PUBLISHER
            changes["followers"] = {"readers": readers}
        if backfilling := getattr(self.door, "backfilling", None):
            newest = replace(backfilling.newest, retention_days=days, most=world.backfill)
            changes["backfilling"] = {"newest": newest}
        planning = getattr(self.door, "planning", None)
        if planning is not None and planning.channels is not None:
            threshold = world.channels.stage.threshold
            changes["planning"] = {"channels": replace(planning.channels, threshold=threshold)}
        for name, values in changes.items():
            use_case = getattr(self.door, name, None)
            if use_case is not None:
                setattr(self.door, name, replace(use_case, **values))
        if visibility := getattr(self.door, "visibility", None):
            visibility.retention_days, visibility.entry_days = days, entry_days
        feeds = getattr(self.door, "feeds", None)
        if feeds is not None:
            # Created at their first use.
            self.door.feeds = partial(replace, feeds(), retention_days=days)  # type: ignore[attr-defined]


@dataclass
class Lambdas:
    """All environments. Loading one takes time, so later runs reuse them."""

    # By function, transport, and whether the stage has channels.
    environments: dict[tuple[str, str, bool], list[Environment]] = field(default_factory=dict)

    def invoke(self, function: str, event: dict[str, Any], *, seconds: float) -> Any:
        """Invoke a function; raises `Crash` if its process dies or at its time-out."""
        world = running.world
        environment = self._free(function, world)
        task = world.scheduler.current
        task.work = Span(world.clock.now_ms())
        task.deadline = world.scheduler.now + seconds
        task.skew_ms, task.environment = world.faults.skew_ms(), environment.name
        if world.stops_idle_clocks:
            # The wall clock is not set back during a freeze.
            task.skew_ms = environment.skew_ms
            environment.stopped += world.scheduler.now - environment.idle_since
        task.stopped = environment.stopped
        task.may_crash = has_failed = True
        task.lands_ms = 0.0
        environment.busy_in = world
        try:
            context = Context(clock.monotonic() + seconds, clock.monotonic)
            answer = environment.door.handler(event, context)
            has_failed = False
            # PLAN leaves edges to RELATE after failed calls.
            if not _is_failure(answer) and not (function == names.PLAN.name and task.work.trouble):
                task.work.ended_ms = world.clock.now_ms()
            return answer
        except Crash:
            # A crash ends the invocation, but not always the environment.
            is_late = world.scheduler.now >= task.deadline
            if is_late or world.random.random() < ENDS_ENVIRONMENT:
                environment.start_cold()
            raise
        finally:
            if world.watch:
                world.watch.invoked(function, failed=has_failed)
            environment.idle_since, environment.stopped = world.scheduler.now, task.stopped
            task.deadline, task.skew_ms, task.environment = float("inf"), 0, ""
            task.stopped = 0.0
            task.may_crash = task.is_dying = False
            environment.busy_in = None

    def count(self) -> int:
        """The number of loaded environments."""
        return sum(map(len, self.environments.values()))

    def restart(self) -> None:
        """Make every environment cold and free, except those of this run's own invocations.

        If a run continues, an invocation may be in the middle of a call.
        """
        batch_retries.RETRY_ENTRIES = running.world.retry_entries
        silence.LONGEST_WAIT_SECONDS = running.world.longest_wait_seconds
        deliver.MAX_HOPS = running.world.max_hops
        follower_estimate.SAMPLE_EDGES = running.world.sample_edges
        plan.ONE_HOP_SECONDS = running.world.one_hop_seconds
        for module, name, value in running.world.channels.stage.patches():
            setattr(module, name, value)
        marks.MAX_HIDDEN, marks.MAX_MUTED = running.world.max_hidden, running.world.max_muted
        for environment in (each for known in self.environments.values() for each in known):
            if environment.busy_in is not running.world:
                environment.busy_in, environment.is_cold = None, True
                environment.idle_since, environment.stopped = running.world.scheduler.now, 0.0

    def _free(self, function: str, world: World) -> Environment:
        stage = world.channels.stage
        key = function, world.transport, stage.threshold > 0
        known = self.environments.setdefault(key, [])
        takes_turns = stage.containers > 0 and function == contract.READ_TIMELINE.door
        first = world.channels.choose() if takes_turns else 0
        while len(known) <= first or all(each.busy_in is not None for each in known[first:]):
            known.append(_load(function, world.transport, has_channels=stage.threshold > 0))
        found = next(each for each in known[first:] if each.busy_in is None)
        found.is_cold |= takes_turns and world.channels.ends_container()
        if found.is_cold:
            found.start_cold()
        return found


def _is_failure(answer: Any) -> bool:
    """Whether a function's answer says that something failed."""
    return bool(answer) and (
        answer.get("statusCode", 200) >= 500
        or answer.get("statusCode") == TooManyRequests.status
        or bool(answer.get("batchItemFailures"))
    )


def _load(function: str, transport: str, *, has_channels: bool) -> Environment:
    """Import a new copy of a function's modules; already imported ones stay."""
    os.environ["TRANSPORT"] = transport
    os.environ["CHANNEL_THRESHOLD"] = str(BY_HAND if has_channels else 0)
    _forget_wires()
    _renew_metrics()
    with imported_anew():
        door = importlib.import_module(f"functions.{function}")
    mine = (
        curl.connections(DYNAMODB),
        *(curl.of_threads(each).own for each in (DYNAMODB, SQS, LAMBDA)),
    )
    return Environment(door, cast("tuple[Wires, ...]", mine))


def _renew_metrics() -> None:
    """Give the next environment its own metrics: Powertools keeps them by process."""
    for collected in ("_metrics", "_dimensions", "_metadata", "_default_dimensions"):
        setattr(Metrics, collected, {})


def _emit(self: AmazonCloudWatchEMFProvider, raise_on_empty_metrics: bool = False) -> None:
    """Pass metrics to the run's CloudWatch instead of printing them; dead processes emit none."""
    del raise_on_empty_metrics
    world, task = running.world, running.world.scheduler.current
    if world.watch and not task.is_dying:
        function = task.environment.partition(" ")[0].rpartition(".")[2]
        world.watch.emitted(function, self.metric_set, self.dimension_set)
    self.clear_metrics()


def _broken(name: str, **ids: object) -> None:
    if hasattr(running, "world"):  # checks read rows after the run, and spoiled ones
        running.world.observer.broken(name, **ids)


def _forget_wires() -> None:
    """Make the next environment create its own libcurl connections and clients."""
    for cached in (curl.connections, curl.of_threads, curl.dynamodb, curl.sqs, curl.lambda_):
        cached.cache_clear()


@cache
def lambdas() -> Lambdas:
    """The environments of this process."""
    return Lambdas()


def settings() -> Settings:
    """The settings of the simulated stack, whose tables and queues have no prefix."""
    mappings = {f"{queue.name.lower()}_mapping": queue.name for queue in MAPPED}
    return stage.settings(BASE_URL, **mappings)


def _boto_dynamodb(attempts: int = CALL.attempts, connections: int | None = None) -> BotoClient:
    return BotoClient("dynamodb", attempts, is_timed=connections is None)


@contextmanager
def installed() -> Iterator[None]:
    """For a while, replace the clock and the clients by those of the simulation."""
    patches: list[Patch] = [
        *clock_patches(lambda: running.world.scheduler),
        (boto, "dynamodb", _boto_dynamodb),
        (threads, "pool", lambda _count: None),
        (boto, "sqs", lambda: BotoClient("sqs", CALL.attempts)),
        (boto, "lambda_", lambda: BotoClient("lambda", CALL.attempts)),
        (AmazonCloudWatchEMFProvider, "flush_metrics", _emit),
        (invariants, "broken", _broken),
        (boto3_transport, "Boto3Transport", UnthreadedTransport),
        (connections, "Connections", Wires),
        (curl, "Connections", Wires),
        # So small that a dozen followers are many segments, pages and chunks.
        (segment_size, "SEGMENT_FOLLOWERS", 4),
        (follower_estimate, "LOW_WATER", 2),
        (backlog, "RingRead", partial(ring_reader.RingRead, low_water=4)),
        (edges_table, "PAGE_EDGES", 3),
        (backlog, "MAX_PUTS", MAX_PUTS),
        (batch_retries, "MAX_PUTS", MAX_PUTS),
        (worker_steps, "MAX_STRAGGLERS", 2),
        # A question is not all that is pending, and a run does not see all that is open.
        (silence, "QUESTION_SEGMENTS", 2),
        (sweep, "QUESTION_SEGMENTS", 2),
        (run_limits, "MAX_ROWS", 3),
        (run_limits, "MAX_PLAN_COMMANDS", 2),
        (run_limits, "MAX_SEGMENT_COMMANDS", 3),
        # Each run has its own.
        (follower_estimate, "SAMPLE_EDGES", follower_estimate.SAMPLE_EDGES),
        (plan, "ONE_HOP_SECONDS", plan.ONE_HOP_SECONDS),
        (batch_retries, "RETRY_ENTRIES", batch_retries.RETRY_ENTRIES),
        (silence, "LONGEST_WAIT_SECONDS", silence.LONGEST_WAIT_SECONDS),
        (deliver, "MAX_HOPS", deliver.MAX_HOPS),
        (marks, "MAX_HIDDEN", marks.MAX_HIDDEN),
        (marks, "MAX_MUTED", marks.MAX_MUTED),
        *ChannelSettings().patches(),
        (sharding, "PARTITION_WRITES", SHARD_WRITES),
        (levels, "SAMPLE", 1),
        (levels, "WAIT_SECONDS", (0.5, 1.0)),
        *(
            (module, "Delivery", partial(worker_steps.Delivery, max_in_flight=MAX_IN_FLIGHT))
            for module in (deliver, plan)
        ),
    ]
    environment = {
        **settings().to_env(),
        "POWERTOOLS_SERVICE_NAME": "simulated",
        "AWS_REGION": "eu-central-1",
    }
    logging.disable(logging.CRITICAL)
    try:
        with patched(patches), patch.dict(os.environ, environment):
            yield
    finally:
        _forget_wires()
        logging.disable(logging.NOTSET)


def queue_url(queue: names.Queue) -> str:
    return f"{BASE_URL}/{queue.name}"


def dlq_url(queue: names.Queue) -> str:
    return f"{BASE_URL}/{queue.name}Dlq"
