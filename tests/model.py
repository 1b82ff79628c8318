"""Attaches the product and boto3 to one account of the model: bytes go in, and bytes come out.

libcurl's and botocore's sides run up to where a request would leave the process. What the model
does not know, such as Cognito, is moto's.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from io import BytesIO
from typing import Any
from unittest.mock import patch

from botocore import xform_name
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ClientError
from botocore.handlers import BUILTIN_HANDLERS
from moto import mock_aws

from fanfold import clock, names
from fanfold.aws import curl, retries
from fanfold.aws.connections import DYNAMODB, LAMBDA, OK, SQS, Connections, Ended, Service
from fanfold.aws.json_protocol import encode, refusal, refused
from fanfold.fanout.transport.loop import Call
from proof.model.dynamodb import client as of_dynamodb
from proof.model.dynamodb.database import Database
from proof.model.dynamodb.values import item_to_wire
from proof.model.endpoint import Answer, Request, answering_from
from proof.model.sqs import client as of_sqs
from proof.model.sqs.client import Queues
from proof.model.sqs.messages import Message
from proof.model.sqs.queues import Hooks
from proof.simulation.world.schemas import schema_of

TARGETS = {"dynamodb": DYNAMODB.target, "sqs": SQS.target}
# moto uses the credentials of tests/conftest.py, as everything does.
MOTO: Any = {"core": {"mock_credentials": False}}
# How often something was asked for: what is refused counts too.
COUNTS = {"posts_until_ns", "last_post"}


@dataclass
class Account:
    """All tables and queues, on a clock with the methods of the model's."""

    clock: Any
    base_url: str
    visibility_seconds: float
    # What a test has put in place of DELIVER's calls, by operation.
    deliveries: dict[str, Callable[..., Any]] = field(default_factory=dict)
    threads: ThreadPoolExecutor = field(default_factory=ThreadPoolExecutor)
    moto: ExitStack = field(default_factory=ExitStack)
    has_moto: bool = False

    def __post_init__(self) -> None:
        # Nothing disappears when it expires, as on moto: DynamoDB may take two days.
        self.database = Database(self.clock)
        self.database.create(*(replace(schema_of(table), ttl=None) for table in names.TABLES))
        # The oldest message comes first, as on moto: a test says the same on both.
        first = Hooks(choose=lambda _random, _queue, _waiting: 0)
        self.queues = Queues(self.clock, first, base_url=self.base_url)
        for queue in names.QUEUES:
            self.queues.create_with_dlq(
                queue.name,
                max_receives=queue.max_receives,
                visibility_seconds=self.visibility_seconds,
            )
        self._answer_as_now()

    def _answer_as_now(self) -> None:
        self._backend = answering_from(
            of_dynamodb.Client(self.database, validates=False),
            of_sqs.Client(self.queues, validates=False),
        )

    def copied(self) -> Account:
        """The same rows and messages once more, on the same clock."""
        twin = copy.copy(self)
        the_clock = {id(self.clock): self.clock}
        twin.database, twin.queues = copy.deepcopy((self.database, self.queues), the_clock)
        twin._answer_as_now()
        return twin

    def answer(self, service: str, operation: str, body: bytes) -> Answer:
        """Answer a call by its names on the wire."""
        target = {"x-amz-target": f"{TARGETS[service]}.{operation}"}
        return self._backend(Request(operation, target, body))

    def items(self, table: names.Table) -> list[dict[str, Any]]:
        """All items of a table, as a scan of boto3 has them."""
        space = self.database.table(table.name).space
        rows = space.walk(after=None, segment=0, segments=1, moment=None)
        return [item_to_wire(row.item) for _, _, row in rows]

    def rows(self, table: names.Table) -> list[str]:
        """All items of a table as text, sorted; without counts, and items that only count."""
        keys = {table.partition_key, table.sort_key}
        kept = (
            {name: item[name] for name in item.keys() - COUNTS}
            for item in self.items(table)
            if not item.keys() - keys <= COUNTS or not item.keys() & COUNTS
        )
        return sorted(json.dumps(item, sort_keys=True, default=repr) for item in kept)

    def dump(self) -> dict[str, list[str]]:
        """All items of all tables, by the table's name."""
        return {table.name: self.rows(table) for table in names.TABLES}

    def messages(self, name: str) -> list[Message]:
        """All messages of a queue, whether visible or not."""
        return list(self.queues.queue(f"{self.base_url}/{name}").messages())

    def queued(self) -> dict[str, list[str]]:
        """The bodies of all messages of all queues, by the queue's name."""
        every = (name for queue in names.QUEUES for name in (queue.name, f"{queue.name}Dlq"))
        return {name: sorted(each.body for each in self.messages(name)) for name in every}

    def start_moto(self) -> None:
        """Let moto answer what the model does not."""
        if not self.has_moto:
            self.moto.enter_context(mock_aws(config=MOTO))
            self.has_moto = True


_current: list[Account] = []  # that of the test which runs, if it has one


def use(account: Account) -> None:
    """Attach this account in place of another one."""
    _current[:] = [account]


@contextmanager
def attached(account: Account) -> Iterator[None]:
    """Inside this context, the functions and boto3's clients call this account."""
    assert not _current, "One account is attached already."
    replaced: Any = {"renew": _renew, "start": _start, "finished": _finished, "forget": _forget}
    with account.moto, own_clients(), patch.multiple(Connections, **replaced):
        _current.append(account)
        try:
            yield
        finally:
            account.threads.shutdown()
            _current.clear()


# libcurl


class Client:
    """The product's client, of which a test may replace methods, as of boto3's."""

    def __init__(self, service: Service, attempts: int = retries.CALL.attempts) -> None:
        self.__dict__["plain"] = curl.Client(curl.of_threads(service), attempts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def __setattr__(self, name: str, value: Any) -> None:
        """What fails as in boto3 fails here as in libcurl."""

        def method(**request: Any) -> Any:
            with failing_as_libcurl():
                return value(**request)

        method.plain = value  # type: ignore[attr-defined]
        self.__dict__[name] = method

    def together(self, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """Also through the methods that a test has put in their places."""
        methods = [xform_name(operation) for operation, _ in calls]
        if not self.__dict__.keys() & {*methods}:
            return self.plain.together(*calls)
        return [
            getattr(self, method)(**request)
            for method, (_, request) in zip(methods, calls, strict=True)
        ]


@contextmanager
def failing_as_libcurl() -> Iterator[None]:
    """An error of botocore's becomes that of the product's client."""
    try:
        yield
    except ClientError as error:
        response: Any = error.response
        raise refusal(response["Error"]["Code"])(response, error.operation_name) from None


@cache
def _dynamodb(attempts: int = retries.CALL.attempts) -> Client:
    return Client(DYNAMODB, attempts)


@cache
def _sqs() -> Client:
    return Client(SQS)


@cache
def _lambda() -> Client:
    return Client(LAMBDA)


@contextmanager
def own_clients() -> Iterator[None]:
    """Inside this context, the functions get clients of this module."""
    with patch.multiple(curl, dynamodb=_dynamodb, sqs=_sqs, lambda_=_lambda):
        yield


class Both:
    """A client of the functions, with all other methods of boto3's, for tests.

    What a test replaces, it replaces in the functions.
    """

    def __init__(self, own: Any, others: Any) -> None:
        self.__dict__.update(own=own, others=others)

    def __getattr__(self, name: str) -> Any:
        """What a test has put there, as it is: its errors are boto3's, for the command line."""
        if replaced := self.own.__dict__.get(name):
            return replaced.plain
        return getattr(self.own, name, None) or getattr(self.others, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.own, name, value)

    def __delattr__(self, name: str) -> None:
        self.own.__dict__.pop(name, None)


class Deliveries:
    """The calls of DELIVER, which makes them on connections and not through a client."""

    def __init__(self, account: Account, client: Client) -> None:
        self.__dict__.update(account=account, client=client)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.account.deliveries[name] = value

    def __delattr__(self, name: str) -> None:
        self.account.deliveries.pop(name, None)


def call(service: Service, operation: str, body: bytes) -> bytes | Exception:
    """Make a call of the functions."""
    if service is LAMBDA:  # of which no stack of these tests has any
        missing = b'{"Message":"The resource you requested does not exist."}'
        return refused(operation, 404, missing, "ResourceNotFoundException")
    answer = _current[0].answer(service.name, operation, body)
    if answer.status == OK:
        return answer.body
    return refused(operation, answer.status, answer.body)


def _start(
    self: Connections, operation: str, body: bytes, tag: Any, *, fresh: bool = False
) -> None:
    """It ends at once, or on a thread if a test has replaced it: it may wait for another one."""
    del fresh
    replaced = _current[0].deliveries.get(xform_name(operation)) if isinstance(tag, Call) else None
    future: Future[bytes | Exception] = Future()
    if replaced is None:
        future.set_result(call(self.service, operation, body))
    else:
        future = _current[0].threads.submit(_replaced, replaced, body)
    self.__dict__.setdefault("begun", []).append((tag, future))


def _replaced(method: Callable[..., Any], body: bytes) -> bytes | Exception:
    try:
        with failing_as_libcurl():
            return encode(method(**json.loads(body)))
    except Exception as error:  # noqa: BLE001 - the answer to a delivery, whichever it is
        return error


def _finished(self: Connections, seconds: float | None) -> list[Ended]:
    """The calls that have ended; with none in flight, the wait passes."""
    begun = self.__dict__.pop("begun", [])
    if not begun:
        clock.sleep(seconds or 0)
    if not any(future.done() for _, future in begun):
        wait([future for _, future in begun], timeout=seconds, return_when=FIRST_COMPLETED)
    ended: list[Ended] = []
    self.__dict__["begun"] = in_flight = []
    for tag, future in begun:
        if future.done():
            ended.append(Ended(tag, future.result()))
        else:
            in_flight.append((tag, future))
    return ended


def _forget(self: Connections) -> None:
    self.__dict__.pop("begun", None)


def _renew(_self: Connections) -> None:
    """The model checks no credentials."""


# boto3


class _Raw(BytesIO):
    """A body as urllib3 hands it over."""

    def stream(self, **_options: Any) -> Iterator[bytes]:
        yield self.read()


def _answer_boto3(request: AWSPreparedRequest, event_name: str, **_event: Any) -> Any:
    """The answer to a call of boto3, or None if somebody else answers it."""
    if not _current:
        return None
    _, service, operation = event_name.split(".")
    if service not in TARGETS:
        _current[0].start_moto()
        return None
    body: Any = request.body
    answer = _current[0].answer(
        service, operation, body.encode() if isinstance(body, str) else bytes(body)
    )
    headers: Any = {"content-type": answer.kind, **answer.headers}
    return AWSResponse(request.url, answer.status, headers, _Raw(answer.body))


# Before moto's own.
BUILTIN_HANDLERS.insert(0, ("before-send", _answer_boto3))
