"""The real functions as programs that can be stopped at any call, copied, and gone on with.

What an invocation does next is decided by what it was invoked with and by the answers so far. So
its state is these answers. To go on with one more, it is run again from its start, once, and what
it does next is remembered: every schedule that comes to the same answers shares that.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple
from unittest.mock import patch

from aws_lambda_powertools.metrics.provider.cloudwatch_emf import cloudwatch

from fanfold import clock, names
from fanfold.aws import boto, threads
from fanfold.aws.items import MAX_PUTS
from fanfold.aws.retries import CALL
from fanfold.fanout import backlog, batch_retries, deliver, plan, policy
from fanfold.fanout.pacing import Pace
from fanfold.fanout.transport import boto3_transport, loop
from fanfold.fanout.transport.boto3_transport import Boto3Transport, ThreadedCalls
from fanfold.follows import density
from proof.model.clock import START_MS
from proof.model.lambda_events import Context
from proof.simulation.exhaustive.calls import (
    AwsCall,
    CallAnswer,
    Client,
    Script,
    Waits,
    number_of,
    stage,
)
from proof.simulation.world.function_modules import imported_anew
from proof.simulation.world.lambdas import settings
from proof.simulation.world.scheduler import Patch, patched


class Program(NamedTuple):
    """An invocation: everything that decides what it does, but for the answers to its calls."""

    name: str  # one that no other invocation has that runs at the same time
    function: str
    event: str  # JSON
    now_ms: int = START_MS
    seconds: float = 60.0  # until its time-out
    seconds_a_call: float = 0.0  # by its clock


@dataclass
class InvocationClock:
    """The clock of the invocation that runs now."""

    now_ms: int = START_MS
    waited: float = 0.0
    seconds_a_call: float = 0.0
    ids: int = 0

    def monotonic(self) -> float:
        return self.waited + stage.script.given * self.seconds_a_call

    def epoch_ms(self) -> int:
        return self.now_ms + int(self.monotonic() * 1000)

    def sleep(self, seconds: float) -> None:
        self.waited += seconds

    def new_id(self) -> str:
        self.ids += 1
        return f"{stage.script.name}-{self.ids}"


@dataclass
class CurrentInvocation:
    moment: InvocationClock = field(default_factory=InvocationClock)


running = CurrentInvocation()


class ProgramPlace(NamedTuple):
    """Where an invocation is: at a call that waits for its answer, or at its end."""

    number: int
    program: Program
    answers: tuple[CallAnswer, ...]
    calls: tuple[int, ...]
    call: AwsCall | None
    end: Any = None  # what the function answered, or its error

    @property
    def is_failure(self) -> bool:
        """Whether it answered that it has not done everything."""
        if isinstance(self.end, Exception):
            return True
        found: dict[str, Any] = self.end or {}
        return found.get("statusCode", 200) >= 400 or bool(found.get("batchItemFailures"))


class Programs:
    """All places that invocations have come to; only inside `installed()`."""

    def __init__(self) -> None:
        self.places: dict[int, ProgramPlace] = {}
        self.doors: dict[str, ModuleType] = {}
        self.runs = 0
        self._after: dict[tuple[int, int], ProgramPlace] = {}

    def begin(self, program: Program) -> ProgramPlace:
        """The place before the first call."""
        number = number_of(*program)
        return self.places.get(number) or self._run(number, program, (), ())

    def after(self, place: ProgramPlace, answer: CallAnswer) -> ProgramPlace:
        """The place to which an answer leads."""
        key = (place.number, answer.number)
        found = self._after.get(key)
        if found is None:
            assert place.call is not None
            found = self._after[key] = self._run(
                number_of(*key),
                place.program,
                (*place.answers, answer),
                (*place.calls, place.call.number),
            )
        return found

    def _run(
        self, number: int, program: Program, answers: tuple[CallAnswer, ...], calls: tuple[int, ...]
    ) -> ProgramPlace:
        self.runs += 1
        door = self.doors.get(program.function)
        if door is None:
            door = self.doors[program.function] = _load(program.function)
        stage.script = script = Script(program.name, answers, calls)
        running.moment = InvocationClock(program.now_ms, seconds_a_call=program.seconds_a_call)
        _forget(door)
        end = None
        try:
            context = Context(program.seconds, clock.monotonic)
            end = door.handler(json.loads(program.event), context)
        except Waits:
            pass
        except Exception as error:  # noqa: BLE001 - Lambda would report it
            end = error
        if script.next is None and script.given < len(answers):
            raise AssertionError(f"{program.name} ended before all its answers.")
        place = ProgramPlace(number, program, answers, calls, script.next, end)
        self.places[number] = place
        return place


def _forget(door: ModuleType) -> None:
    """Make the environment cold: nothing is left of the invocation before."""
    following = getattr(door, "following", None)
    if following is not None:
        following.edges.forget()
    heads = getattr(door, "heads", None)
    if heads is not None:
        heads.forget()
    paces: dict[str, Pace] = getattr(door, "PACES", {})
    paces.update((queue, Pace(pace.ceiling)) for queue, pace in paces.items())


def _load(function: str) -> ModuleType:
    """Import a copy of a function's modules, and leave those that are imported as they are."""
    with imported_anew():
        return importlib.import_module(f"functions.{function}")


@dataclass(frozen=True)
class SerialTransport(Boto3Transport):
    """The transport of boto3 without its threads."""

    @contextmanager
    def calls(self) -> Iterator[ThreadedCalls]:
        yield SerialCalls(self)


@dataclass(frozen=True)
class SerialCalls(ThreadedCalls):
    """One call after the other, in the order in which they were started."""

    waiting: list[loop.Call] = field(default_factory=list)

    def start(self, call: loop.Call) -> None:
        self.waiting.append(call)

    def finished(self, seconds: float | None) -> Iterator[loop.Finished]:
        if self.waiting:
            self._run(self.waiting.pop(0))
        else:
            clock.sleep(seconds or 0.0)
        yield from super().finished(0.0)


@dataclass(frozen=True)
class Sizes:
    """So small that one follower more is a batch, and perhaps a segment, more."""

    segment_followers: int = plan.SEGMENT_FOLLOWERS
    puts: int = MAX_PUTS
    sample: int = density.SAMPLE_EDGES  # with 1, a single follower is a lane's already


@contextmanager
def installed(sizes: Sizes) -> Iterator[None]:
    """Put the clock and the clients of this exploration in the place of the real ones."""
    patches: list[Patch] = [
        (clock, "now_ms", lambda: running.moment.epoch_ms()),
        (clock, "monotonic", lambda: running.moment.monotonic()),
        (clock, "sleep", lambda seconds: running.moment.sleep(seconds)),
        (clock, "chance", lambda: 0.0),
        (clock, "new_id", lambda: running.moment.new_id()),
        (boto, "dynamodb", lambda attempts=CALL.attempts, **_: Client("dynamodb", attempts)),
        (boto, "sqs", lambda: Client("sqs", CALL.attempts)),
        (boto, "lambda_", lambda: Client("lambda", CALL.attempts)),
        (threads, "pool", lambda _count: None),
        (cloudwatch, "print", lambda *_, **__: None),
        (boto3_transport, "Boto3Transport", SerialTransport),
        (plan, "SEGMENT_FOLLOWERS", sizes.segment_followers),
        (backlog, "MAX_PUTS", sizes.puts),
        (batch_retries, "MAX_PUTS", sizes.puts),
        (density, "SAMPLE_EDGES", sizes.sample),
        *(
            (each, "Delivery", partial(policy.Delivery, max_in_flight=1))
            for each in (deliver, plan)
        ),
    ]
    environment = {
        # A backfill changes no relation, and its orders would triple the states.
        **replace(settings(), backfill=0).to_env(),
        "TRANSPORT": names.BOTO3,
        "POWERTOOLS_SERVICE_NAME": "explored",
        "AWS_REGION": "eu-central-1",
    }
    logging.disable(logging.CRITICAL)
    try:
        with patched(patches), patch.dict(os.environ, environment), warnings.catch_warnings():
            # A program is stopped before it flushes its metrics.
            warnings.filterwarnings("ignore", "No application metrics", UserWarning)
            warnings.filterwarnings("ignore", "Dimension 'lane' has already", UserWarning)
            yield
    finally:
        logging.disable(logging.NOTSET)
