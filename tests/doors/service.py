"""The real functions on the models of DynamoDB and SQS, in one thread: fast enough for thousands.

Only clock and connections are replaced: requests and answers of AWS are bytes, as libcurl has them.
"""

from __future__ import annotations

import copy
import importlib
import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

from aws_model import endpoint
from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.database import Database
from aws_model.dynamodb.values import item_to_wire
from aws_model.lambda_events import Context, sqs_event
from aws_model.sqs import client as sqs
from aws_model.sqs.client import Queues
from aws_model.sqs.messages import Message
from fanfold import clock as product_clock
from fanfold import contract, names
from fanfold.aws import connections, curl, threads
from fanfold.aws.answers import refused
from fanfold.aws.connections import Ended, Service
from fanfold.contract import Route
from fanfold.settings import Settings
from simulation.function_modules import imported_anew
from simulation.schemas import schema_of
from tests import openapi

Json = dict[str, Any]
EVENTS = Path(__file__).parents[2] / "events"
DOORS = ("api", "timeline", "plan", "deliver", "relate")
BASE_URL = "http://127.0.0.1/123456789012"
# Long before the time-out of a function: nothing here waits for anything.
SECONDS = 60.0
VISIBILITY_SECONDS = 360
# How often something was asked for: what is refused counts too.
COUNTS = {"posts_until_ns", "last_post"}


def settings(**changed: Any) -> Settings:
    tables = {table.setting: table.name for table in names.TABLES}
    queues = {queue.url_setting: f"{BASE_URL}/{queue.name}" for queue in names.QUEUES}
    dlqs = {queue.dlq_url_setting: f"{BASE_URL}/{queue.name}Dlq" for queue in names.QUEUES}
    return Settings(**{**tables, **queues, **dlqs, **changed})


@dataclass
class Account:
    """All tables and queues, and the time."""

    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.database = Database(self.clock)
        self.database.create(*map(schema_of, names.TABLES))
        self.queues = Queues(self.clock)
        for queue in names.QUEUES:
            self.queues.create_with_dlq(
                queue.name,
                max_receives=queue.max_receives,
                visibility_seconds=VISIBILITY_SECONDS,
            )

    @property
    def backend(self) -> endpoint.Backend:
        return endpoint.answering_from(
            dynamodb.Client(self.database, validates=False),
            sqs.Client(self.queues, validates=False),
        )

    def rows(self, table: names.Table) -> list[str]:
        """All items of a table as text, sorted; without counts, and items that only count."""
        rows = self.database.table(table.name).space.walk(
            after=None, segment=0, segments=1, moment=None
        )
        wire = (item_to_wire(row.item) for _, _, row in rows)
        keys = {table.partition_key, table.sort_key}
        kept = (
            {name: item[name] for name in item.keys() - COUNTS}
            for item in wire
            if not item.keys() - keys <= COUNTS or not item.keys() & COUNTS
        )
        return sorted(json.dumps(item, sort_keys=True, default=repr) for item in kept)

    def dump(self) -> dict[str, list[str]]:
        """All items of all tables, by the table's name."""
        return {table.name: self.rows(table) for table in names.TABLES}

    def messages(self, name: str) -> list[Message]:
        """All messages of a queue, whether visible or not."""
        return list(self.queues.queue(f"{BASE_URL}/{name}").messages())

    def queued(self) -> dict[str, list[str]]:
        """The bodies of all messages of all queues, by the queue's name."""
        every = (name for queue in names.QUEUES for name in (queue.name, f"{queue.name}Dlq"))
        return {name: sorted(each.body for each in self.messages(name)) for name in every}


class Wires(connections.Connections):
    """Connections to the account of the moment: bytes go in, and bytes or an error come out."""

    backend: endpoint.Backend  # of the class
    clock: Clock  # of the class

    def __init__(self, service: Service, env: Mapping[str, str] | None = None) -> None:
        del env
        self.service = service
        self._done: list[Ended] = []

    def renew(self) -> None:
        """The models check no credentials."""

    def start(self, operation: str, body: bytes, tag: Any, *, fresh: bool = False) -> None:
        del fresh
        target = {"x-amz-target": f"{self.service.target}.{operation}"}
        answer = type(self).backend(endpoint.Request(operation, target, body))
        is_good = answer.status == connections.OK
        result = answer.body if is_good else refused(operation, answer.status, answer.body)
        self._done.append(Ended(tag, result))

    def finished(self, seconds: float | None) -> list[Ended]:
        """Every call has ended; with none, the wait passes on the model's clock."""
        if not self._done:
            self.clock.advance(seconds or 0)
        done, self._done = self._done, []
        return done

    def forget(self) -> None:
        self._done.clear()


class Faults(logging.Handler):
    """Collects what the functions log with a traceback, which is a fault of ours."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(repr(record.exc_info[1]))


@dataclass
class Answered:
    """The answer of an HTTP function, which is as the OpenAPI document says."""

    raw: Json

    @property
    def status(self) -> int:
        return int(self.raw["statusCode"])

    @property
    def text(self) -> str:
        return str(self.raw.get("body", ""))

    @property
    def content(self) -> Any:
        return json.loads(self.text)

    @property
    def slug(self) -> str:
        """The name of the problem."""
        return str(self.content["type"]).removeprefix(f"{contract.PROBLEMS_PAGE}#")


@dataclass
class Doors:
    """The functions, and the account that they work on; `kept` is what `reset` goes back to."""

    modules: Mapping[str, ModuleType]
    faults: Faults
    account: Account = field(default_factory=Account)
    kept: Account | None = None
    _rows: dict[str, list[str]] = field(default_factory=dict)  # of what is kept

    def __post_init__(self) -> None:
        self.use(self.account)

    def use(self, account: Account) -> None:
        self.account = account
        Wires.backend, Wires.clock = staticmethod(account.backend), account.clock

    def keep(self) -> None:
        """Take what there is now for the beginning of every case."""
        self.kept, self._rows = copy.deepcopy(self.account), self.account.dump()

    def reset(self) -> None:
        """Begin anew, also with what containers remember."""
        self.use(copy.deepcopy(self.kept) if self.kept else Account())
        self.faults.found.clear()
        api, timeline, relate = (self.modules[each] for each in ("api", "timeline", "relate"))
        api.followers.forget()
        relate.backfilling.forget()
        for name in ("api", "plan", "relate"):
            self.modules[name].following.edges.forget()
            self.modules[name].heads.forget()
        timeline.channels.forget()
        timeline.reading.hydration.cache.clear()
        timeline.reading.hydration.retracted.clear()

    def restore(self) -> None:
        """The same as `reset`, sooner where no row has changed."""
        if self.kept is None or self.account.dump() != self._rows:
            self.reset()
            return
        for url in self.account.queues.by_url:
            self.account.queues.queue(url).purge()
        self.faults.found.clear()

    def http(
        self,
        route: Route,
        user: Any,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: str | None = None,
        is_base64: bool = False,
    ) -> Answered:
        """Send a request of a user whose token is verified."""
        request: Json = {
            "version": "2.0",
            "routeKey": route.key,
            "headers": {"authorization": "Bearer token", **(headers or {})},
            "requestContext": {
                "authorizer": {"jwt": {"claims": {"sub": user, "token_use": "access"}}},
                "requestId": "JKJaXmPL0007EAMEVw=",
                "timeEpoch": self.account.clock.now_ms(),
            },
            "isBase64Encoded": is_base64,
        }
        if path is not None:
            request["pathParameters"] = dict(path)
        if query:
            request["queryStringParameters"] = dict(query)
        if body is not None:
            request["body"] = body
        return self.ask(route, request)

    def ask(self, route: Route, request: Json) -> Answered:
        """Invoke the function of a route with an event of API Gateway."""
        answer = self.modules[route.door].handler(request, self._context())
        openapi.check(route.key, answer)
        return Answered(answer)

    def send(self, name: str, body: str, **more: Any) -> None:
        """Send a message, perhaps with another `group`, `sender` and `attributes`."""
        self.account.queues.queue(f"{BASE_URL}/{name}").send(Message(body, **more))

    def deliver(self, name: str, count: int = 10) -> list[str]:
        """Invoke the consumer of a queue with a batch; the bodies of messages that come again.

        The others are deleted, as the event source mapping does.
        """
        queue = self.account.queues.queue(f"{BASE_URL}/{name}")
        client = sqs.Client(self.account.queues, validates=False)
        received = client.receive_message(
            QueueUrl=f"{BASE_URL}/{name}",
            MaxNumberOfMessages=count,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        if not received:
            return []
        answer = self.modules[_consumer(name)].handler(sqs_event(name, received), self._context())
        again = {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        assert again <= {each["MessageId"] for each in received}
        for each in received:
            if each["MessageId"] not in again:
                queue.delete(each["ReceiptHandle"])
        return [each["Body"] for each in received if each["MessageId"] in again]

    def settle(self, queues: Sequence[str] = ("Publish", "Relation", "Express", "Bulk")) -> None:
        """Invoke the consumers until the queues are empty."""
        for _ in range(200):
            for name in queues:
                self.deliver(name, 1 if _consumer(name) == "deliver" else 10)
            if not any(self.account.messages(name) for name in queues):
                return
            self.account.clock.advance(VISIBILITY_SECONDS / 10)
        raise AssertionError("The queues do not become empty.")

    def letters(self, name: str) -> list[tuple[str, Json]]:
        """The dead letters of a queue: each body, with the attributes that it carries."""
        return [
            (each.body, {key: value["StringValue"] for key, value in each.attributes.items()})
            for each in self.account.messages(f"{name}Dlq")
        ]

    def _context(self) -> Any:
        now = self.account.clock.monotonic
        return Context(now() + SECONDS, now)


def _consumer(name: str) -> str:
    return next(queue.consumer.name for queue in names.QUEUES if queue.name == name)


@contextmanager
def opened(**changed: Any) -> Iterator[Doors]:
    """The functions with these settings changed, in modules of their own."""
    faults = Faults()
    with ExitStack() as ends:
        ends.enter_context(patch.object(connections, "Connections", Wires))
        ends.enter_context(patch.object(curl, "Connections", Wires))
        ends.enter_context(patch.object(threads, "pool", lambda _count: None))
        ends.enter_context(patch.dict(os.environ, settings(**changed).to_env()))
        ends.callback(_forget_clients)
        _forget_clients()
        doors = Doors(_modules(), faults)
        for name, replaced in {
            "now_ms": lambda: doors.account.clock.now_ms(),
            "monotonic": lambda: doors.account.clock.monotonic(),
            "sleep": lambda seconds: doors.account.clock.advance(seconds),
        }.items():
            ends.enter_context(patch.object(product_clock, name, replaced))
        log = doors.modules["api"].logger._logger
        ends.enter_context(patch.object(log, "handlers", [faults]))
        ends.enter_context(patch.object(log, "propagate", False))
        yield doors


def _modules() -> dict[str, ModuleType]:
    """New copies of the functions; those that are imported stay as they are."""
    with imported_anew():
        return {name: importlib.import_module(f"functions.{name}") for name in DOORS}


def _forget_clients() -> None:
    for cached in (curl.connections, curl.of_threads, curl.dynamodb, curl.sqs, curl.lambda_):
        cached.cache_clear()
