"""Both transports over real sockets, on the model behind HTTP: every follower gets the entry."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import pytest

from fanfold import clock, names
from fanfold.aws import boto, curl
from fanfold.aws.items import number, text
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import is_transient
from fanfold.fanout import batch_retries
from fanfold.fanout.deliver import Delivering
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.pacing import Pace
from fanfold.fanout.row import COMPLETE, Fanout
from fanfold.messages import DeliverSegment, parse
from fanfold.settings import Settings
from fanfold.stores import Stores
from functions import _clients, _wiring
from proof.model.clock import Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.database import Database
from proof.model.endpoint import Backend, answering_from, serving
from proof.model.faults import OTHERS, FaultyBatches, Rates
from proof.model.sqs import client as sqs
from proof.simulation.stage import stores
from tests import service as system
from tests.compat.calls import CREATIONS
from tests.stores import POST, ROW
from tests.wire.judge import judged

pytestmark = pytest.mark.network
# Rates at which workers hand back, and a few hundred batches meet every fault, both before and
# after they are applied.
WORST_DAY = Rates(partial=0.6, throttled=0.15, broken=0.1, reset=0.05, others=0.15)
# Faster than two cores; each message has a new pace, because throttles would slow the tests down.
RATE = 1_000_000
# Each turn advances the queues' clock by a minute.
TURN_SECONDS, MAX_TURNS = 60, 2_000


@dataclass
class Service:
    """DELIVER by one transport, between which and the tables a test may put faults."""

    delivering: Delivering
    tables: Any  # without faults
    queues: sqs.Queues
    queue_url: str
    outcomes: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.sqs = cast("Any", sqs.Client(self.queues))
        lane = WorkQueue(self.sqs, self.queue_url)
        self.lanes, self.ledger = Lanes(lane, lane), stores(self.tables).ledger

    def publish(self, users: list[str]) -> None:
        """Accept a post for these followers, and plan two segments for the lane."""
        followers = stores(self.tables).edges
        followers.put_all(("ada", user, 1, 0) for user in users)
        stores(self.tables).posts.add(POST, now=0)
        self.ledger.open(ROW)
        self.ledger.plan(ROW, segments=2, followers=len(users), level=0, now=ROW.accepted_at)
        self.lanes.send_pending(self.row())

    def work(self) -> None:
        """Take messages until the fan-out is complete; a transient failure leaves one there."""
        for _ in range(MAX_TURNS):
            if self.row().state == COMPLETE:
                return
            self.queues.clock.advance(TURN_SECONDS)
            received = self.sqs.receive_message(QueueUrl=self.queue_url, AttributeNames=["All"])
            for message in received.get("Messages", ()):
                try:
                    outcome = self._deliver(message)
                except Exception as error:
                    if not is_transient(error):
                        raise
                    self.outcomes["failed"] += 1
                    continue
                self.outcomes[outcome] += 1
                handle = message["ReceiptHandle"]
                self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=handle)
            if not self.queues.queue(self.queue_url).messages():  # all lost
                self.lanes.send_pending(self.row())
        raise AssertionError(f"It does not end: {self.outcomes}")

    def _deliver(self, message: Any) -> str:
        outcome = self.delivering.deliver(
            DeliverSegment.from_content(parse(message["Body"])),
            publisher_id=message["Attributes"]["MessageGroupId"],
            pace=Pace(RATE),
            redelivered=int(message["Attributes"]["ApproximateReceiveCount"]) > 1,
            sent_at=0,
            stop_at=clock.monotonic() + 300,
        )
        return outcome.what

    def row(self) -> Fanout:
        row = self.ledger.get("post-1")
        assert row
        return row

    def assert_complete(self, users: list[str]) -> None:
        """Every follower has exactly one entry, nobody else has any, and the ledger agrees."""
        pages = self.tables.get_paginator("scan").paginate(TableName=names.TIMELINES.name)
        entries = [item for page in pages for item in page["Items"]]
        fixed = {
            "sort_key": text(ROW.sort_key),
            "publisher_id": text("ada"),
            "expires_at": number(ROW.expires_at),
        }
        wanted = [{"user_id": text(user), **fixed} for user in users]
        assert sorted(entries, key=_user) == sorted(wanted, key=_user)
        row = self.row()
        assert (row.state, row.delivered, row.pending) == (COMPLETE, len(users), frozenset())


def _user(item: dict[str, Any]) -> str:
    return str(item["user_id"]["S"])


Way = Callable[[Backend], Backend]


@pytest.fixture(params=names.TRANSPORTS)
def service(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Way], Service]]:
    """A function that starts a service, whose calls to the tables pass through its argument."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    # Fresh caches for this service; the rest of the process keeps its clients.
    for module, name in (
        (boto, "dynamodb"), (boto, "sqs"),
        (curl, "connections"), (curl, "of_threads"), (curl, "dynamodb"), (curl, "sqs"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, cache(getattr(module, name).__wrapped__))
    settings = Settings(**{**vars(system.settings()), "transport": request.param})
    with ExitStack() as ends:

        def start(way: Way) -> Service:
            queues = sqs.Queues(Clock())
            url = queues.create("Lane", visibility_seconds=300)
            tables = dynamodb.Client(Database(Clock()))
            for creation in CREATIONS.values():
                tables.create_table(**creation)
            backend = answering_from(tables, sqs.Client(queues))
            for variable, calls in (
                ("AWS_ENDPOINT_URL", backend), ("AWS_ENDPOINT_URL_DYNAMODB", way(backend)),
            ):  # fmt: skip
                address = ends.enter_context(serving(ends.enter_context(judged(calls))))
                monkeypatch.setenv(variable, address)
            ours: Any = _clients.transport(settings)
            client, queue = _clients.dynamodb(settings), _clients.sqs(settings)
            for each in (client, queue, ours.entries.client):
                if close := getattr(each, "close", None):  # libcurl's client has none
                    ends.callback(close)
            if threads := getattr(ours, "threads", None):
                ends.callback(threads.shutdown)
            lane = WorkQueue(queue, url)
            stores = Stores(client, settings)
            lookup = _wiring.lookup(stores, _clients.together(settings))
            delivering = Delivering(lookup, stores.ledger, Lanes(lane, lane), ours)
            return Service(delivering, tables, queues, url)

        yield start


ODD = [
    '"quoted" \\ \t\x01 grüße',
    "日本語",
    "\N{GRINNING FACE}",
    "\\u0041",
    "a\nb\x00c\x7f",
    "\u2028\ufeff",
    "x" * 900,
    "ada+tag@example.org",
]


def test_every_follower_has_one_correct_entry_despite_faults_and_repeated_hand_backs(
    service: Callable[[Way], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_retries, "BACKOFF_CAP_SECONDS", 0.1)  # or each segment takes seconds
    monkeypatch.setattr(batch_retries, "RETRY_ENTRIES", 200)
    counted: Counter[str] = Counter()
    users = [*(f"follower-{number}" for number in range(1_000)), *ODD]
    here = service(lambda calls: FaultyBatches(calls, WORST_DAY, seed=1, counted=counted).answer)
    here.publish(users)
    here.work()
    here.assert_complete(users)
    assert here.outcomes["handed back"] > 2
    both = [f"{fault} {when}" for fault in ("broken", "reset") for when in ("before", "after")]
    assert all(counted[fault] for fault in ("partial", "throttled", *both)), counted
    assert any(counted[f"other {fault}"] for fault in OTHERS)
