"""What the doors call AWS through: the clients of boto3 and of libcurl, and the transport of each.

Every call ends the actor's turn, and may fail. Of boto3 only what makes threads and calls is
replaced, of libcurl only its connections; all that lies between these and a door is the product.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from botocore import xform_name
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

from aws_model.dynamodb import client as dynamodb
from fanfold import clock
from fanfold.aws.curl import Connections, Ended, Lost, Service, encode, refused
from fanfold.aws.retries import is_transient
from fanfold.fanout.policy import Send
from fanfold.fanout.transport import Finished
from fanfold.fanout.transport_boto3 import Boto3Transport, ThreadedCalls
from fanfold.follows.ring_reader import Read
from fanfold.timeline.entries import Entry

if TYPE_CHECKING:
    from simulation.world import World

T = TypeVar("T")

# Where a world keeps the client of a service.
CLIENTS = {"dynamodb": "dynamodb", "sqs": "sqs", "lambda": "mappings"}
# Before the name of an error on the wire.
NAMESPACES = {"dynamodb": "com.amazonaws.dynamodb.v20120810", "sqs": "com.amazonaws.sqs"}
# What a load balancer may say in the place of the service.
PAGE = b"<html><body><h1>503 Service Temporarily Unavailable</h1></body></html>"


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


def make(service: str, operation: str, request: dict[str, Any]) -> Any:
    """Make a call of the model, which may fail before its effect or after; another turn ends."""
    world = running.now
    world.note(f"{service}.{operation}", request)
    world.watch(operation, request)
    world.faults.before(service, operation)
    try:
        answer = getattr(_client(service), operation)(**request)
    except ClientError as error:
        world.refused(operation, request, error)
        raise
    world.applied(operation, request)
    world.faults.after(service, operation)
    world.stage.give_way()
    return answer


def _client(service: str) -> Any:
    return getattr(running.now, CLIENTS[service])


@dataclass
class InFlight:
    """Calls that were begun. Each ends after a time of its own, and so in any order."""

    _calls: list[tuple[float, Any]] = field(default_factory=list)

    def begin(self, call: Any) -> None:
        """Begin a call."""
        self._calls.append((clock.monotonic() + running.now.faults.seconds(), call))

    def ended(self, seconds: float | None) -> Iterator[Any]:
        """Wait until a call ends, at most so long; each that has ended by then."""
        now = clock.monotonic()
        wake_at = min((at for at, _ in self._calls), default=now + (seconds or 0.0))
        if seconds is not None:
            wake_at = min(wake_at, now + seconds)
        running.now.stage.give_way(max(0.0, wake_at - now))
        now = clock.monotonic()
        for each in sorted((each for each in self._calls if each[0] <= now), key=lambda e: e[0]):
            self._calls.remove(each)
            yield each[1]

    def take_all(self) -> list[Any]:
        """What has not ended, and is in flight no more."""
        calls = [call for _, call in self._calls]
        self._calls.clear()
        return calls


# Through boto3


@dataclass(frozen=True)
class BotoClient:
    """A client whose every call ends the actor's turn, and may fail.

    It takes its time, unless a transport has waited already.
    """

    service: str
    attempts: int
    is_timed: bool = True

    @property
    def exceptions(self) -> Any:
        """The client's exceptions."""
        return _client(self.service).exceptions

    def get_paginator(self, operation: str) -> Any:
        """Botocore's paginator, over our calls."""
        return dynamodb.Client.get_paginator(self, operation)  # type: ignore[arg-type]

    def __getattr__(self, operation: str) -> Any:
        return partial(self._try, operation)

    def _try(self, operation: str, **request: Any) -> Any:
        if operation == "transact_write_items":  # as botocore does, one token for all attempts
            request["ClientRequestToken"] = clock.new_id()
        for attempt in range(1, self.attempts + 1):
            if self.is_timed:
                running.now.stage.give_way(running.now.faults.seconds())
            try:
                return make(self.service, operation, request)
            except Exception as error:
                if attempt == self.attempts or not is_transient(error):
                    raise
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class UnthreadedTransport(Boto3Transport):
    """The transport of boto3, without its threads."""

    @contextmanager
    def calls(self, entry: Entry) -> Iterator[ThreadedCalls]:
        """To deliver `entry`."""
        yield UnthreadedCalls(self, entry)


@dataclass(frozen=True)
class UnthreadedCalls(ThreadedCalls):
    """Calls that are made when they have ended: one at a time, in any order."""

    in_flight: InFlight = field(default_factory=InFlight)

    def start(self, action: Read | Send) -> None:
        """Begin a call."""
        self.in_flight.begin(action)

    def finished(self, seconds: float | None) -> Iterator[Finished]:
        """Wait for calls to end, at most so long, or until one does; those that have ended."""
        for action in self.in_flight.ended(seconds):
            self._run(action)
        yield from super().finished(0.0)


# Through libcurl


@dataclass(frozen=True)
class Request:
    """A call on the wire."""

    operation: str
    body: bytes
    tag: Any


class Wires(Connections):
    """Connections to the model: bytes go in; bytes come out, or what went wrong.

    `call` is the real one.
    """

    def __init__(self, service: Service) -> None:
        self.service = service
        self.in_flight = InFlight()

    def renew(self) -> None:
        """Nobody looks at credentials here."""

    def start(self, operation: str, body: bytes, tag: Any, *, fresh: bool = False) -> None:
        """Begin a call; there are no connections to choose from."""
        del fresh
        self.in_flight.begin(Request(operation, body, tag))

    def finished(self, seconds: float | None) -> list[Ended]:
        """Wait for calls to end, at most so long, or until one does; those that have ended."""
        return [Ended(call.tag, self._result(call)) for call in self.in_flight.ended(seconds)]

    def forget(self) -> None:
        """Break off the calls in flight; they may take effect."""
        for call in self.in_flight.take_all():
            if running.now.faults.random.random() < 0.5:
                # It is on its way: nobody's turn ends, and nobody hears how it went, but us.
                request = json.loads(call.body)
                with suppress(ClientError):
                    _client(self.service.name).call(call.operation, request)
                    running.now.applied(xform_name(call.operation), request)

    def _result(self, call: Request) -> bytes | Exception:
        name, request = xform_name(call.operation), json.loads(call.body)
        try:
            answer = make(self.service.name, name, request)
        except ClientError as error:
            return self._refusal(call.operation, error)
        except (ConnectionError, HTTPClientError):
            return self._no_answer(call.operation)
        return encode({key: value for key, value in answer.items() if key != "ResponseMetadata"})

    def _refusal(self, operation: str, error: ClientError) -> Exception:
        content: dict[str, Any] = dict(error.response)
        told, status = content.pop("Error"), content.pop("ResponseMetadata")["HTTPStatusCode"]
        code = f"{NAMESPACES[self.service.name]}#{told['Code']}"
        body = encode({"__type": code, "message": told["Message"], **content})
        if status >= 500 and running.now.faults.random.random() < 0.3:
            body = PAGE
        return refused(operation, status, body)

    def _no_answer(self, operation: str) -> bytes | Exception:
        """The connection is lost, or the answer was cut short; nothing of it may be left."""
        if running.now.faults.random.random() < 0.5:
            return Lost(f"{operation}: the connection was reset.")
        whole = encode({"UnprocessedItems": {}})
        return whole[: running.now.faults.random.choice((0, len(whole) - 1))]
