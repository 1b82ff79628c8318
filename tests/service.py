"""The whole service in one process: its Lambda handlers on tables and queues of an engine."""

from __future__ import annotations

import copy
import hashlib
import importlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError

from fanfold import clock as product_clock
from fanfold import contract, names
from fanfold.aws import boto
from fanfold.aws.connections import Service
from fanfold.channels.head import Head, partition_of
from fanfold.contract import Route
from fanfold.fanout.row import Fanout
from fanfold.follows import ring
from fanfold.ids import ref_id_for
from fanfold.settings import Settings
from fanfold.stores import Stores
from fanfold.timeline.entries import Entry
from fanfold.timeline.post_cache import Hydration
from fanfold.timeline.posts import Post
from functions import _clients, _wiring
from proof.model.lambda_events import Context, sqs_event
from proof.simulation import stage
from proof.simulation.world.function_modules import imported_anew
from tests import model, openapi

EVENTS = Path(__file__).parents[1] / "events"
ACCOUNT = "123456789012"
REGION = "eu-central-1"
QUEUES_URL = f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}"
VISIBILITY_SECONDS = 360
# The time of receipt in the events of events/.
AT = "2026-11-20T18:00:00.123Z"
AT_MS = 1_795_197_600_123
# The `ref_id` of the post that the events publish, retract and show over HTTP. Those of the queue
# choose 'post-1' itself.
POST = ref_id_for("ada", "post-1")

# Routes by the names of their events. Some of these are in events/.
REQUESTS = {
    f"{route.door}/{name.lower()}": route
    for name, route in vars(contract).items()
    if isinstance(route, Route)
}
OF_PUBLISHERS = (
    *("retract_post", "show_delivery", "list_followers", "count_followers", "show_privacy"),
    *("list_requests", "approve", "remove", "block", "list_blocked"),
)
BY_KEY = {route.key: route for route in contract.ROUTES}
HANDLERS = {"Publish": "plan", "Express": "deliver", "Bulk": "deliver", "Relation": "relate"}

Json = dict[str, Any]
# The fixture `fail_first`: a client, its operation, and the errors of its first calls.
FailFirst = Callable[..., list[Any]]


def settings(**changed: Any) -> Settings:
    """Settings with the queue URLs of moto, which the model takes over; some are `changed`.

    The transport is the environment's, which is that of the engine, or libcurl.
    """
    transport = os.environ.get("TRANSPORT", names.LIBCURL)
    return stage.settings(QUEUES_URL, **{"transport": transport, **changed})


def event(name: str) -> Json:
    """One of the events of events/, or one of a route without a body, such as `api/follow`."""
    path = EVENTS / f"{name}.json"
    if path.exists():
        content: Json = json.loads(path.read_text())
        return content
    route, ids = REQUESTS[name], {"publisher_id": "ada", "user_id": "bob", "ref_id": POST}
    user = "ada" if name.endswith(OF_PUBLISHERS) else "bob"
    given = {each: ids[each] for each in ids if f"{{{each}}}" in route.path}
    return request_of(route, user, at_ms=AT_MS, path=given)


class Crash(Exception):
    """The process has ended."""


@dataclass
class CrashAfter:
    """Inside this context, the process ends after `calls` AWS calls; the last one is applied."""

    calls: int
    happened: bool = False

    def __enter__(self) -> CrashAfter:
        lock = threading.RLock()

        def crash_after(_operation: str, _request: Json, make: Callable[[], Any]) -> Any:
            with lock:
                if self.calls == 0:
                    raise Crash
                answer = make()
                self.calls -= 1
                if self.calls == 0:
                    self.happened = True
                    raise Crash
                return answer

        self._ends = ExitStack()
        self._ends.enter_context(around_calls(crash_after))
        return self

    def __exit__(self, *_error: object) -> None:
        self._ends.close()


@contextmanager
def around_calls(around: Callable[[str, Json, Callable[[], Any]], Any]) -> Iterator[None]:
    """Inside this context, `around` is called for each call of AWS; its third argument makes it."""
    of_boto3, of_functions = BaseClient._make_api_call, model.call  # type: ignore[attr-defined]

    def call_by_boto3(client: BaseClient, operation: str, request: Json) -> Any:
        return around(operation, request, lambda: of_boto3(client, operation, request))

    def call_of_functions(service: Service, operation: str, body: bytes) -> Any:
        request = json.loads(body)
        return around(operation, request, lambda: of_functions(service, operation, body))

    with (
        patch.object(BaseClient, "_make_api_call", call_by_boto3),
        patch.object(model, "call", call_of_functions),
    ):
        yield


@contextmanager
def through_lanes() -> Iterator[None]:
    """Inside this context, no fan-out fits PLAN: it plans each, and the lanes deliver."""
    with patch("fanfold.fanout.plan._fits", lambda _sample: False):
        yield


class Clock:
    """A clock that only `advance` moves; also the model's."""

    def __init__(self) -> None:
        self.ms = AT_MS  # since the epoch
        self.seconds = 0.0  # since the test began

    def advance(self, seconds: float) -> None:
        """Let time pass, on both clocks; as the product's `sleep`, too."""
        self.ms += round(seconds * 1000)
        self.seconds += seconds

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.ms / 1000

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.ms

    def monotonic(self) -> float:
        """Seconds since the test began."""
        return self.seconds


class Answer:
    """The HTTP answer of a handler, which is as the OpenAPI document says."""

    def __init__(self, raw: Json, route_key: str = "") -> None:
        openapi.check(route_key, raw)
        self.status: int = raw["statusCode"]
        self.headers: Json = raw.get("headers", {})
        self.text: str = raw.get("body", "")
        self.body: Any = json.loads(self.text) if self.text else None

    @property
    def slug(self) -> str:
        """The type of the problem document, without its prefix."""
        assert self.headers["content-type"] == "application/problem+json"
        assert self.body["status"] == self.status
        return str(self.body["type"]).removeprefix(f"{contract.PROBLEMS_PAGE}#")


@dataclass
class Stage:
    """The functions on tables and queues, and how requests and messages reach them."""

    clock: Clock
    settings: Settings
    account: model.Account | None = None  # if it is the model's
    context: Context = field(default_factory=Context)
    handled: list[tuple[str, Json]] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Those of the functions: a test may change what they answer.
        self.dynamodb: Any = _clients.dynamodb(self.settings)
        self.sqs: Any = _clients.sqs(self.settings)
        if self.account:
            self.dynamodb = model.Both(self.dynamodb, boto.dynamodb())
            self.sqs = model.Both(self.sqs, boto.sqs())

    @staticmethod
    def door(name: str) -> ModuleType:
        """Import a module of functions/."""
        return importlib.import_module(f"functions.{name}")

    def forget(self) -> None:
        """Begin as containers do: with empty caches, which use the clock of this moment."""
        timeline: Any = self.door("timeline")
        hydration = Hydration(timeline.reading.hydration.posts)
        feeds = replace(timeline.feeds(), hydration=hydration)
        timeline.reading = replace(timeline.reading, hydration=hydration)
        timeline.feeds = lambda: feeds
        timeline.channels.forget()
        timeline.stores.privacies.forget()
        for name in ("api", "plan", "relate"):
            door: Any = self.door(name)
            edges = _wiring.edges(door.settings)
            door.following = replace(door.following, edges=edges)
            door.audience = replace(door.audience, edges=edges)
            door.following.privacies.forget()
            door.heads.forget()
        self.door("api").followers.forget()
        self.door("relate").backfilling.forget()

    def ask(self, route: Route, request: Json) -> Answer:
        """Invoke the function of a route with an event of API Gateway."""
        return Answer(self.door(route.door).handler(request, self.context), route.key)

    def take(self, content: Json) -> list[str]:
        """Invoke the handler of an SQS event; return the ids of the failed messages."""
        queue = content["Records"][0]["eventSourceARN"].rpartition(":")[2]
        self.handled.append((queue, copy.deepcopy(content)))
        answer = self.door(HANDLERS[queue]).handler(content, self.context)
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    def receive(self, queue: str, limit: int = 10) -> list[Json]:
        """Receive messages from a queue, as records of an event."""
        answer = self.sqs.receive_message(
            QueueUrl=self.url(queue),
            MaxNumberOfMessages=limit,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        records: list[Json] = sqs_event(queue, answer.get("Messages", []))["Records"]
        return records

    def url(self, queue: str) -> str:
        """The URL of a queue by its name."""
        return f"{QUEUES_URL}/{queue}"

    def delete(self, queue: str, record: Json) -> None:
        """Delete a message that was received."""
        self.sqs.delete_message(QueueUrl=self.url(queue), ReceiptHandle=record["receiptHandle"])

    def work(self, queue: str, limit: int | None = None) -> tuple[list[Json], list[Json]]:
        """Invoke the handler with one batch: the records that are done, and those that come again.

        The former are deleted. Both are empty if no message is visible.
        """
        records = self.receive(queue, limit or (1 if HANDLERS[queue] == "deliver" else 10))
        if not records:
            return [], []
        failed = self.take({"Records": records})
        assert {*failed} <= {record["messageId"] for record in records}
        done = [record for record in records if record["messageId"] not in failed]
        for record in done:
            self.delete(queue, record)
        return done, [record for record in records if record["messageId"] in failed]

    def pump_once(self, queue: str) -> bool:
        """Work on one batch; False if no message is visible."""
        return any(self.work(queue))

    def waiting(self, queue: str) -> int:
        """The number of messages in a queue: visible, in flight and delayed."""
        attributes: Json = self.sqs.get_queue_attributes(
            QueueUrl=self.url(queue), AttributeNames=["All"]
        )["Attributes"]  # type: ignore[assignment]
        kinds = ("", "NotVisible", "Delayed")
        return sum(int(attributes[f"ApproximateNumberOfMessages{kind}"]) for kind in kinds)

    def pump(self, *queues: str) -> None:
        """Work on these queues, or on all, as event source mappings do, until they are empty."""
        queues = queues or tuple(HANDLERS)
        for _ in range(1000):
            moved = [self.pump_once(queue) for queue in queues]
            if any(moved):
                continue
            if not any(self.waiting(queue) for queue in queues):
                return
            self.clock.advance(VISIBILITY_SECONDS / 10)  # the rest is in flight or delayed
        raise AssertionError("The queues do not become empty.")


@dataclass
class System(Stage):
    """A stage with its stores: what stories send it, and what they find there."""

    def __post_init__(self) -> None:
        super().__post_init__()
        stores = Stores(self.dynamodb, self.settings)
        self.fanouts = stores.ledger
        self.sweeper = stores.open_fanouts
        self.posts = stores.posts
        self.edges_table = stores.edges
        self.publishers = stores.publishers
        self.timelines = stores.entries
        self.heads = stores.heads
        self.follows = stores.follows()

    # Functions

    @property
    def unretried(self) -> Any:
        """DELIVER's client, which does not retry."""
        client = self.door("deliver").delivering.transport.entries.client
        return model.Deliveries(self.account, client) if self.account else client

    @property
    def edge_client(self) -> Any:
        """The client for edges, which does not retry."""
        return self.door("api").following.edges.edges_table.client

    def error_name(self, code: str) -> str:
        """The name in a log of an error of AWS: libcurl's client has a type for each code."""
        return code if self.account else "ClientError"

    def http(
        self,
        name: str,
        *,
        user: str | None = None,
        body: Any = None,
        raw: str | None = None,
        path: Json | None = None,
        query: Json | None = None,
        headers: Json | None = None,
        seconds_ago: int = 0,
    ) -> Answer:
        """Send the event `name` of events/ with the given changes, received so long ago."""
        request = event(name)
        if user is not None:
            request["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = user
        if body is not None:
            raw = json.dumps(body)
        if raw is not None:
            request["body"] = raw
        if path is not None:
            request["pathParameters"] = path
        if query is not None:
            request["queryStringParameters"] = query
        request["headers"].update(headers or {})
        request["requestContext"]["timeEpoch"] = self.clock.ms - 1000 * seconds_ago
        key = request["routeKey"]
        door = BY_KEY[key].door if key in BY_KEY else "api"
        return Answer(self.door(door).handler(request, self.context), key)

    def publish(self, key: str = "post-1", *, user: str = "ada", **fields: Any) -> Answer:
        """Publish over HTTP; the `ref_id` is `ref_id_for(user, key)`."""
        headers = {"idempotency-key": key}
        return self.http("api/publish_post", user=user, body=fields, headers=headers)

    def follow(self, user: str, publisher: str = "ada") -> Answer:
        """Follow over HTTP."""
        return self.http("api/follow", user=user, path={"publisher_id": publisher})

    def unfollow(self, user: str, publisher: str = "ada") -> Answer:
        """Unfollow over HTTP."""
        return self.http("api/unfollow", user=user, path={"publisher_id": publisher})

    def timeline(self, user: str, **query: str) -> Answer:
        """A page of the user's timeline over HTTP, with these query parameters."""
        return self.http("timeline/read_timeline", user=user, query=query)

    def give_up(self, fanout_id: str = POST) -> None:
        """Let a fan-out stall, as SWEEP does."""
        assert self.sweeper.give_up(self.ledger(fanout_id), now_ms=self.clock.ms)

    def sweep(self) -> None:
        """Invoke SWEEP, as its schedule does."""
        self.door("sweep").handler(event("schedule/sweep"), self.context)

    # Queues

    def record(self, queue: str, body: Any, *, times_received: int = 1) -> Json:
        """A Lambda record of a message that is in no queue."""
        record: Json = event("publish_queue/fanout_plan")["Records"][0]
        raw = body if isinstance(body, str) else json.dumps(body)
        digest = hashlib.sha256(raw.encode()).hexdigest()
        record["messageId"] = f"{digest[:8]}-0000-4000-8000-{digest[8:20]}"
        record["body"] = raw
        record["attributes"]["ApproximateReceiveCount"] = str(times_received)
        record["attributes"]["SentTimestamp"] = str(self.clock.ms)
        record["eventSourceARN"] = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"
        return record

    def bodies(self, queue: str) -> list[Json]:
        """Receive and delete all visible messages of a queue; return their bodies."""
        found = []
        while records := self.receive(queue):
            for record in records:
                self.delete(queue, record)
                found.append(json.loads(record["body"]))
        return found

    def rejected(self, queue: str) -> list[tuple[str, str]]:
        """Receive and delete all dead letters of a queue; return bodies and reasons."""
        found = []
        while records := self.receive(f"{queue}Dlq"):
            for record in records:
                self.delete(f"{queue}Dlq", record)
                reason = record["messageAttributes"].get("reason", {}).get("stringValue", "")
                found.append((record["body"], reason))
        return found

    # Channels, in a test whose `channel_threshold` is not 0

    def promote(self, *publishers: str) -> Head:
        """Give publishers a channel, as an operator does; returns the head."""
        head = self.heads.get()
        for publisher in publishers:
            head = self.heads.add(publisher, head, followers=9) or head
            assert head.of(publisher), publisher
        return head

    def put_into_channel(self, *entries: Entry) -> None:
        """Put posts into their publishers' channels, as PLAN does."""
        for entry in entries:
            assert not self.timelines.push(entry, [partition_of(entry.publisher_id)])
            assert self.heads.raise_seq(entry.publisher_id, entry.sort_key)

    # Results

    def ledger(self, fanout_id: str = POST) -> Fanout:
        """The row of a fan-out, which is there."""
        fanout = self.fanouts.get(fanout_id)
        assert fanout, f"no ledger row of {fanout_id}"
        return fanout

    def open_fanouts(self) -> list[str]:
        """The ids of the fan-outs under way, sorted."""
        return sorted(self.fanouts.open_ids())

    def post(self, ref_id: str = POST) -> Post:
        """The row of a post; KeyError if there is none."""
        posts, left = self.posts.get([ref_id])
        assert not left
        return posts[ref_id]

    def rows(self, table: names.Table) -> list[Json]:
        """All items of a table, sorted."""
        if self.account:  # boto3 takes many times as long to read them
            items = self.account.items(table)
        else:
            pages = self.dynamodb.get_paginator("scan").paginate(TableName=table.name)
            items = [item for page in pages for item in page["Items"]]
        return sorted(items, key=lambda item: json.dumps(item, sort_keys=True, default=repr))

    def rows_of(self, table: str) -> list[Json]:
        """All items of the table with this name, sorted."""
        return self.rows(next(each for each in names.TABLES if each.name == table))

    def dump(self) -> Json:
        """All items of all tables, by table name."""
        return {table.name: self.rows(table) for table in names.TABLES}

    def reached(self, ref_id: str = POST) -> list[str]:
        """The owners of timelines with the post, sorted, one for each entry."""
        return sorted(
            item["user_id"]["S"]
            for item in self.rows(names.TIMELINES)
            if item["sort_key"]["S"].endswith(f"#{ref_id}")
        )

    def edges(self, publisher: str = "ada") -> list[str]:
        """The followers whom a fan-out would reach now, sorted."""
        return sorted({user for _, user in self.placements(publisher)})

    def placements(self, publisher: str = "ada") -> list[tuple[int, str]]:
        """All edges of a publisher, as level and follower, sorted."""
        found = []
        for item in self.rows(names.FOLLOWERS):
            shard_id, edge = item["shard_id"]["S"], item["edge"]["S"]
            if shard_id.startswith(f"{publisher}#"):
                level, shard = map(int, shard_id.partition("#")[2].split("."))
                assert shard == ring.shard_of(ring.position_of(edge), level)
                found.append((level, ring.follower_of(edge)))
        return sorted(found)

    def give_followers(self, count: int, publisher: str = "ada", *, level: int = 0) -> list[str]:
        """Write `count` edges at one level; return the followers, sorted."""
        users = sorted(f"follower-{number}" for number in range(count))
        for start in range(0, count, 1000):
            part = users[start : start + 1000]
            assert not self.edges_table.put_all((publisher, user, 1, level) for user in part)
        return users


def request_of(
    route: Route,
    user: Any,
    *,
    at_ms: int,
    path: Mapping[str, str] | None = None,
    query: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    body: str | None = None,
    is_base64: bool = False,
) -> Json:
    """The event of API Gateway for a request, received at `at_ms`, whose token is verified."""
    request: Json = {
        "version": "2.0",
        "routeKey": route.key,
        "headers": {"authorization": "Bearer token", **(headers or {})},
        "requestContext": {
            "authorizer": {"jwt": {"claims": {"sub": user, "token_use": "access"}}},
            "requestId": "JKJaXmPL0007EAMEVw=",
            "timeEpoch": at_ms,
        },
        "isBase64Encoded": is_base64,
    }
    if path is not None:
        request["pathParameters"] = dict(path)
    if query:
        request["queryStringParameters"] = dict(query)
    if body is not None:
        request["body"] = body
    return request


def keep_time(monkeypatch: pytest.MonkeyPatch, now: Clock, monotonic: Callable[[], float]) -> None:
    """Make this clock the product's, whose sleep advances it."""
    monkeypatch.setattr(product_clock, "now_ms", now.now_ms)
    monkeypatch.setattr(product_clock, "monotonic", monotonic)
    monkeypatch.setattr(product_clock, "sleep", now.advance)


@contextmanager
def own_functions(chosen: Settings) -> Iterator[None]:
    """Inside this context, the functions are imported anew, with these settings."""
    with patch.dict(os.environ, chosen.to_env()), imported_anew():
        yield


@contextmanager
def on_model(now: Clock) -> Iterator[model.Account]:
    """Inside this context, the functions and boto3's clients call empty tables and queues."""
    account = model.Account(now, QUEUES_URL, VISIBILITY_SECONDS)
    with model.attached(account):
        yield account


def error(code: str, status: int = 400) -> ClientError:
    """An error as boto3 raises it."""
    return ClientError(
        {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "Operation",
    )


def cancelled(*codes: str) -> Exception:
    """A cancelled transaction; moto itself knows no other reason than a refused condition."""
    response: Any = error("TransactionCanceledException").response
    response["CancellationReasons"] = [{"Code": code} for code in codes]
    kind = boto.dynamodb().exceptions.TransactionCanceledException
    return kind(response, "TransactWriteItems")
