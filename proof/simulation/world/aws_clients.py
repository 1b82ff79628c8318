"""The clients through which the functions call AWS: of boto3 and of libcurl, with their transports.

Every call ends the task's turn, and may fail. Only boto3's calls and threads and libcurl's
connections are replaced; everything between these and a function's handler is the product's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from botocore import xform_name
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError, ReadTimeoutError

from fanfold import clock
from fanfold.aws.connections import Connections, Ended, Service
from fanfold.aws.json_protocol import Lost, encode, refused
from fanfold.aws.retries import is_throttle, is_transient
from fanfold.fanout.transport.boto3_transport import Boto3Transport, ThreadedCalls
from fanfold.fanout.transport.loop import Call, Finished
from proof.model.endpoint import read_request
from proof.simulation.faults.faults import FREEZE_SECONDS
from proof.simulation.world.retries import is_repeated

if TYPE_CHECKING:
    from proof.simulation.world.world import World

# Calls that take longer count as slow.
TROUBLE_SECONDS = 0.1
# The field of an answer that names what was not done.
ROUNDING_MS = 1
LEFT = frozenset({"UnprocessedItems", "UnprocessedKeys", "Failed"})
# The prefix of an error's name on the wire.
NAMESPACES = {
    "dynamodb": "com.amazonaws.dynamodb.v20120810",
    "sqs": "com.amazonaws.sqs",
    "lambda": "com.amazonaws.lambda",
}
# The answer of a load balancer instead of the service.
PAGE = b"<html><body><h1>503 Service Temporarily Unavailable</h1></body></html>"


class CurrentRun:
    """The current run; `world` exists only during one."""

    world: World


running = CurrentRun()


def call(service: str, operation: str, request: dict[str, Any]) -> Any:
    """Call the model; it may fail before or after its effect. Ends the task's turn."""
    world = running.world
    world.note(f"{service}.{operation}", request)
    world.observer.before(operation, request)
    try:
        for trouble in world.troubles:
            trouble.before(service, operation, request)
        world.faults.before(service, operation)
    except Exception as error:
        _note_failure(operation, request, error)
        raise
    if (seconds := world.faults.belated_seconds(operation)) is not None:
        _land_later(operation, request, seconds)
        timed_out = ReadTimeoutError(endpoint_url=f"https://{service}.example")
        _note_failure(operation, request, timed_out)
        raise timed_out
    if part := world.faults.part_of(operation, request):
        with suppress(ClientError):
            world.observer.applied(
                operation, part, getattr(world.client(service), operation)(**part)
            )
        cut_short = world.faults.halfway(service, operation)
        _note_failure(operation, request, cut_short)
        raise cut_short
    try:
        token = request.get("ClientRequestToken")
        if token not in world.database.tokens and token not in world.database.in_progress:
            world.faults.conflicts(operation, request)
        answer = getattr(world.client(service), operation)(**request)
    except ClientError as error:
        # A failed condition is an answer.
        if error.response["Error"]["Code"] != "ConditionalCheckFailedException":
            _note_failure(operation, request, error)
        world.observer.rejected(operation, request, error)
        raise
    world.observer.applied(operation, request, answer)
    if token in world.database.in_progress:
        world.scheduler.sleep(world.appeared_at - world.scheduler.now)
    try:
        world.faults.after(service, operation)
    except Exception as error:
        _note_failure(operation, request, error)
        raise
    if world.scheduler.current.may_crash and world.faults.freezes():
        world.scheduler.current.faults += 1
        _note_trouble()
        world.scheduler.freeze(FREEZE_SECONDS)
    if not LEFT.isdisjoint(answer) and any(answer.get(left) for left in LEFT):
        world.scheduler.current.faults += 1
    world.scheduler.sleep()
    return answer


def _note_failure(operation: str, request: dict[str, Any], error: Exception) -> None:
    running.world.scheduler.current.faults += 1
    running.world.observer.failed(operation, request)
    watch = running.world.watch
    if watch and is_throttle(error):
        for table in tables_of(request):
            watch.throttled(operation, table)


def _land_later(operation: str, request: dict[str, Any], seconds: float) -> None:
    """Let a write land that its caller has given up; observers attribute it to the caller."""
    world = running.world

    def land() -> None:
        world.scheduler.sleep(seconds)
        world.observer.landing(operation, request)
        with suppress(ClientError):
            answer = getattr(world.dynamodb, operation)(**request)
            world.observer.applied(operation, request, answer)

    caller = world.scheduler.current
    caller.lands_ms = max(caller.lands_ms, world.clock.now_ms() + seconds * 1000 + ROUNDING_MS)
    landing = world.scheduler.start(land, caller.name)
    landing.number, landing.work = caller.number, caller.work


def tables_of(request: dict[str, Any]) -> Collection[str]:
    """The tables of a request; none if it is not to DynamoDB."""
    if "TableName" in request:
        return (request["TableName"],)
    if "TransactItems" in request:
        actions = (next(iter(each.values())) for each in request["TransactItems"])
        return tuple(dict.fromkeys(action["TableName"] for action in actions))
    return tuple(request.get("RequestItems", ()))


def _note_trouble() -> None:
    """Note the failure: invocations without any must do everything."""
    work = running.world.scheduler.current.work
    if work:
        work.trouble += 1


@dataclass
class InFlight:
    """Calls that have begun. Each takes its own time, so they end in any order."""

    _calls: list[tuple[float, Any]] = field(default_factory=list)

    def begin(self, started: Any) -> None:
        seconds = running.world.faults.seconds()
        if seconds > TROUBLE_SECONDS:
            running.world.scheduler.current.faults += 1
            _note_trouble()
        self._calls.append((clock.monotonic() + seconds, started))

    def ended(self, seconds: float | None) -> Iterator[Any]:
        """Wait until a call ends, at most `seconds`; yield those that have ended."""
        now = clock.monotonic()
        wake_at = min([at for at, _ in self._calls], default=now + (seconds or 0.0))
        if seconds is not None:
            wake_at = min(wake_at, now + seconds)
        running.world.scheduler.sleep(max(0.0, wake_at - now))
        now = clock.monotonic()
        for each in sorted((each for each in self._calls if each[0] <= now), key=lambda e: e[0]):
            self._calls.remove(each)
            yield each[1]

    def take_all(self) -> list[Any]:
        """Return the calls that have not ended, and forget them."""
        calls = [started for _, started in self._calls]
        self._calls.clear()
        return calls


# Through boto3


@dataclass(eq=False)
class BotoClient:
    """A client whose every call ends the task's turn, and may fail."""

    service: str
    attempts: int
    is_timed: bool = True  # False if a transport has waited already

    @property
    def exceptions(self) -> Any:
        return running.world.client(self.service).exceptions

    def __getattr__(self, operation: str) -> Any:
        call = partial(self._try, operation)
        self.__dict__[operation] = call  # cached, so that later look-ups are fast
        return call

    def _try(self, operation: str, **request: Any) -> Any:
        if operation == "transact_write_items":  # like botocore: one token for all attempts
            request["ClientRequestToken"] = clock.new_id()
        world = running.world
        for attempt in range(1, self.attempts + 1):
            if self.is_timed:
                seconds = world.faults.seconds()
                if is_slow := seconds > TROUBLE_SECONDS:
                    world.scheduler.current.faults += 1
                world.scheduler.sleep(seconds)
                if is_slow:
                    _note_trouble()
            try:
                return call(self.service, operation, request)
            except Exception as error:
                if is_transient(error):
                    _note_trouble()
                if attempt == self.attempts or not is_repeated(error):
                    raise
        raise AssertionError("unreachable")


@dataclass(frozen=True)
class UnthreadedTransport(Boto3Transport):
    """The transport of boto3 without its threads."""

    @contextmanager
    def calls(self) -> Iterator[ThreadedCalls]:
        yield UnthreadedCalls(self)


@dataclass(frozen=True)
class UnthreadedCalls(ThreadedCalls):
    """Calls that have their effect when they end: one at a time, in any order."""

    in_flight: InFlight = field(default_factory=InFlight)

    def start(self, call: Call) -> None:
        self.in_flight.begin(call)

    def finished(self, seconds: float | None) -> Iterator[Finished]:
        for call in self.in_flight.ended(seconds):
            self._run(call)
        yield from super().finished(0.0)


# Through libcurl


class Request(NamedTuple):
    operation: str
    body: bytes
    tag: Any


def _read(sent: Request) -> tuple[str, dict[str, Any]]:
    """The method of the model's client for a request, and its arguments."""
    if not sent.operation.startswith("/"):
        return xform_name(sent.operation), read_request(sent.body)
    return "get_event_source_mapping", {"UUID": sent.operation.rpartition("/")[2]}


class Wires(Connections):
    """Connections to the model: bytes go in, and bytes or an error come out."""

    def __init__(self, service: Service, env: Mapping[str, str] | None = None) -> None:
        del env
        self.service = service
        self.in_flight = InFlight()

    def renew(self) -> None:
        """Do nothing, because the model does not check credentials."""

    def start(self, operation: str, body: bytes, tag: Any, *, fresh: bool = False) -> None:
        del fresh  # there are no connections to choose from
        self.in_flight.begin(Request(operation, body, tag))

    def finished(self, seconds: float | None) -> list[Ended]:
        return [Ended(call.tag, self._result(call)) for call in self.in_flight.ended(seconds)]

    def forget(self) -> None:
        """Abort the calls in flight; they may still take effect.

        But not if a task learns of its time-out only when it wakes: its process was stopped before.
        """
        world = running.world
        is_stopped = world.scheduler.now > world.scheduler.current.deadline
        for sent in self.in_flight.take_all():
            if world.faults.random.random() < 0.5 and not is_stopped:
                # No turn ends, and no task hears of the result; only the observer does.
                name, request = _read(sent)
                world.observer.before(name, request)
                with suppress(ClientError):
                    answer = getattr(world.client(self.service.name), name)(**request)
                    world.observer.applied(name, request, answer)

    def _result(self, sent: Request) -> bytes | Exception:
        name, request = _read(sent)
        try:
            answer = call(self.service.name, name, request)
        except ClientError as error:
            if is_transient(error):
                _note_trouble()
            return self._error(sent.operation, error)
        except (ConnectionError, HTTPClientError):
            _note_trouble()
            return self._no_answer(sent.operation)
        return encode({key: value for key, value in answer.items() if key != "ResponseMetadata"})

    def _error(self, operation: str, error: ClientError) -> Exception:
        content: dict[str, Any] = dict(error.response)
        cause, status = content.pop("Error"), content.pop("ResponseMetadata")["HTTPStatusCode"]
        code = f"{NAMESPACES[self.service.name]}#{cause['Code']}"
        body = encode({"__type": code, "message": cause["Message"], **content})
        if status >= 500 and running.world.faults.random.random() < 0.3:
            body = PAGE
        return refused(operation, status, body)

    def _no_answer(self, operation: str) -> bytes | Exception:
        """The connection is lost, or the answer is cut short, perhaps to nothing."""
        if running.world.faults.random.random() < 0.5:
            return Lost(f"{operation}: the connection was reset.")
        whole = encode({"UnprocessedItems": {}})
        return whole[: running.world.faults.random.choice((0, len(whole) - 1))]
