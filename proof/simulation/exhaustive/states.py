"""A state of a scope, a step from one to the next, and the faults that a step may meet."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from enum import Enum
from typing import Any, NamedTuple

from botocore.exceptions import ConnectionClosedError

from proof.model import errors
from proof.model.errors import Refused
from proof.simulation.exhaustive.calls import AwsCall, CallAnswer, number_of
from proof.simulation.exhaustive.doors import Program, ProgramPlace
from proof.simulation.exhaustive.store import Contents


class Fate(Enum):
    """What happens to a call. All but the first two are faults."""

    DONE = ""
    STALE = "reads the index as it was at first"
    DIES_BEFORE = "dies before"
    DIES_AFTER = "dies after"
    LOST = "answer lost"
    TWICE = "applied twice"
    THROTTLED = "throttled"
    UNPROCESSED = "unprocessed"
    COPIED = "and a copy of the message stays"


FREE = frozenset({Fate.DONE, Fate.STALE})


class Letter(NamedTuple):
    """A message that waits in a queue; those of dead-letter queues wait for ever."""

    queue: str
    body: str
    group: str
    sent_at: int  # epoch milliseconds
    receives: int = 0
    copy: int = 0
    # A delay that outlives its sender's invocation: nobody receives it before that has ended.
    held_by: str = ""

    @property
    def number(self) -> int:
        return number_of(*self)


class Task(NamedTuple):
    """An invocation that has begun, or a client or SWEEP that may; 0 is no letter."""

    place: int
    letter: int


class State(NamedTuple):
    """Everything that decides what can happen from now on. Tasks and letters are sorted."""

    contents: Contents
    tasks: tuple[Task, ...]
    letters: tuple[int, ...]
    ghost: Hashable  # what the checks remember
    faults: int  # that may still strike


class Step(NamedTuple):
    """One call: the next one of a task, or the first one of a worker that takes a letter."""

    task: Task
    kind: Fate
    begins: bool


class Happened(NamedTuple):
    """A step as the checks see it."""

    program: Program
    is_first: bool  # call of its invocation
    end: ProgramPlace | None  # if it has ended
    died: bool
    letter: Letter | None
    is_acknowledged: bool  # the letter is deleted
    before: Contents
    after: Contents
    answer: Mapping[str, Any]  # to the call, if it is no error


LOST = CallAnswer.of(ConnectionClosedError(endpoint_url="https://explored.example"))
THROTTLES = {
    "dynamodb": Refused("ProvisionedThroughputExceededException", "Too many requests."),
    "sqs": Refused("RequestThrottled", "Too many requests.", status=429),
    "lambda": Refused("TooManyRequestsException", "Too many requests.", status=429),
}


def throttled(call: AwsCall) -> CallAnswer:
    refused = THROTTLES[call.service]
    return CallAnswer.of(errors.client_error(call.service, call.operation, refused))


def unprocessed(call: AwsCall) -> CallAnswer:
    """The answer to a batch of which nothing was done."""
    request = call.request
    if call.operation == "send_message_batch":
        failed = [
            {"Id": entry["Id"], "SenderFault": False, "Code": "InternalError"}
            for entry in request["Entries"]
        ]
        return CallAnswer.of({"Failed": failed})
    items = request["RequestItems"]
    if call.operation == "batch_get_item":
        return CallAnswer.of({"Responses": {}, "UnprocessedKeys": items})
    return CallAnswer.of({"UnprocessedItems": items})
