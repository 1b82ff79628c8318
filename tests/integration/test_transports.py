"""Both transports over real sockets, on the model behind HTTP: every follower gets the entry."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import boto3
import pytest
from botocore.config import Config

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.database import Database
from aws_model.endpoint import Answer, Backend, Request, answering_from, late, serving
from aws_model.faults import BATCH, OTHERS, FaultyBatches, Rates
from aws_model.sqs import client as sqs
from fanfold import clock, names
from fanfold.aws import boto, curl, retries
from fanfold.aws.queues import WorkQueue
from fanfold.aws.retries import is_transient
from fanfold.aws.threads import pool
from fanfold.fanout import batch_retries
from fanfold.fanout.deliver import Delivering
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.pacing import Pace
from fanfold.fanout.plan import Planning
from fanfold.fanout.row import COMPLETE, Fanout
from fanfold.fanout.transport import JOIN_SECONDS, Loop
from fanfold.follows.edges_table import EdgesTable
from fanfold.messages import DeliverSegment, parse
from fanfold.settings import Settings
from fanfold.timeline.posts import Post, Posts
from functions import _clients, _wiring
from tests.compat.calls import CREATIONS
from tests.integration import system
from tests.wire.judge import judged

pytestmark = pytest.mark.network
NOW = "2026-11-20T18:00:00.123Z"
FANOUT = Fanout(
    fanout_id="post-1",
    publisher_id="ada",
    sort_key=f"{NOW}#post-1",
    accepted_at=NOW,
    expires_at=1_900_000_000,
)
POST = Post(
    ref_id="post-1",
    publisher_id="ada",
    published_at=NOW,
    accepted_at=NOW,
    expires_at=FANOUT.expires_at,
    body="{}",
)
# Rates at which a few hundred batches meet every fault, both before and after they are applied.
BAD_DAY = Rates(partial=0.3, throttled=0.1, broken=0.1, reset=0.1, others=0.3)
# Rates at which workers hand back.
WORST_DAY = Rates(partial=0.6, throttled=0.15, broken=0.1, reset=0.05, others=0.15)
# Faster than two cores; each message has a new pace, because throttles would slow the tests down.
RATE = 1_000_000
# Each turn advances the queues' clock by a minute.
TURN_SECONDS, MAX_TURNS = 60, 2_000
QUOTES = '"quoted" \\ \t\x01 grüße \N{GRINNING FACE}'


@dataclass
class Service:
    """PLAN and DELIVER by one transport, between which and the tables a test may put faults."""

    planning: Planning
    delivering: Delivering
    tables: Any  # a client without faults
    queues: sqs.Queues
    queue_url: str
    outcomes: Counter[str] = field(default_factory=Counter)

    def accept(self, users: list[str]) -> None:
        """Accept a post for these followers."""
        followers = EdgesTable(self.tables, names.FOLLOWERS.name)
        followers.put_all(("ada", user, 1, 0) for user in users)
        Posts(self.tables, names.POSTS.name).add(POST, now=0)
        self.ledger.open(FANOUT)

    def plan(self, *, redelivered: bool = False) -> str:
        """Take the order to plan the post; returns what became of it."""
        outcome = self.planning.plan(
            FANOUT.fanout_id,
            publisher_id="ada",
            pace=Pace(RATE),
            redelivered=redelivered,
            stop_at=clock.monotonic() + 300,
        )
        return outcome.what

    def publish(self, users: list[str], *, segments: int = 1) -> None:
        """Accept a post for these followers, and plan it for the lanes."""
        self.accept(users)
        self.ledger.plan(FANOUT, segments=segments, followers=len(users), level=0, now=NOW)
        self.lanes.send_pending(self.row())

    @property
    def lanes(self) -> Lanes:
        lane = WorkQueue(self.sqs, self.queue_url)
        return Lanes(lane, lane)

    @property
    def sqs(self) -> Any:
        return sqs.Client(self.queues)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.tables, names.FANOUTS.name)

    def work(self) -> None:
        """Take messages until the fan-out is complete."""
        for _ in range(MAX_TURNS):
            if self.row().state == COMPLETE:
                return
            self.queues.clock.advance(TURN_SECONDS)
            if not self.turn() and not self.queues.queue(self.queue_url).messages():  # all lost
                self.lanes.send_pending(self.row())
        raise AssertionError(f"It does not end: {self.outcomes}")

    def turn(self) -> bool:
        """Take one message; a transient failure leaves it in the queue. False if there is none."""
        received = self.sqs.receive_message(QueueUrl=self.queue_url, AttributeNames=["All"])
        for message in received.get("Messages", ()):
            command = DeliverSegment.from_content(parse(message["Body"]))
            again = int(message["Attributes"]["ApproximateReceiveCount"]) > 1
            try:
                outcome = self.delivering.deliver(
                    command,
                    publisher_id=message["Attributes"]["MessageGroupId"],
                    pace=Pace(RATE),
                    redelivered=again,
                    sent_at=0,
                    stop_at=clock.monotonic() + 300,
                )
            except Exception as error:
                if not is_transient(error):
                    raise
                self.outcomes["failed"] += 1
                continue
            self.outcomes[outcome.what] += 1
            self.sqs.delete_message(QueueUrl=self.queue_url, ReceiptHandle=message["ReceiptHandle"])
        return "Messages" in received

    def row(self) -> Fanout:
        row = self.ledger.get("post-1")
        assert row
        return row

    def entries(self) -> list[dict[str, Any]]:
        pages = self.tables.get_paginator("scan").paginate(TableName=names.TIMELINES.name)
        return [item for page in pages for item in page["Items"]]

    def assert_complete(self, users: list[str]) -> None:
        """Every follower has exactly one entry, nobody else has any, and the ledger agrees."""
        assert sorted(map(_spelled, self.entries())) == sorted(_spelled(_entry(u)) for u in users)
        row = self.row()
        assert (row.state, row.delivered, row.pending) == (COMPLETE, len(users), frozenset())


def _entry(user: str) -> dict[str, Any]:
    return {
        "user_id": {"S": user},
        "sort_key": {"S": FANOUT.sort_key},
        "publisher_id": {"S": "ada"},
        "expires_at": {"N": str(FANOUT.expires_at)},
    }


def _spelled(item: dict[str, Any]) -> str:
    return json.dumps(item, sort_keys=True)


Way = Callable[[Backend], Backend]


@contextmanager
def serving_workers(transport: str, way: Way, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """PLAN and DELIVER by one transport, whose calls to the tables pass through `way`."""
    # Fresh caches for this service; the rest of the process keeps its clients.
    for module, name in (
        (boto, "dynamodb"), (boto, "sqs"),
        (curl, "connections"), (curl, "of_threads"), (curl, "dynamodb"), (curl, "sqs"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, cache(getattr(module, name).__wrapped__))
    queues = sqs.Queues(Clock())
    url = queues.create("Lane", visibility_seconds=300)
    model = dynamodb.Client(Database(Clock()))
    for creation in CREATIONS.values():
        model.create_table(**creation)
    backend = answering_from(model, sqs.Client(queues))
    settings = Settings(**{**vars(system.settings()), "transport": transport})
    with ExitStack() as ends:
        plain = ends.enter_context(serving(ends.enter_context(judged(backend))))
        monkeypatch.setenv("AWS_ENDPOINT_URL", plain)
        disturbed = ends.enter_context(serving(ends.enter_context(judged(way(backend)))))
        monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", disturbed)
        tables = boto3.client("dynamodb", endpoint_url=plain, config=Config(proxies={}))
        ours: Any = _clients.transport(settings)
        client, queue = _clients.dynamodb(settings), _clients.sqs(settings)
        lane = WorkQueue(queue, url)
        lookup = _wiring.lookup(settings, client, _clients.together(settings))
        ledger, lanes = Ledger(client, settings.fanouts_table), Lanes(lane, lane)
        delivering = Delivering(lookup, ledger, lanes, ours)
        planning = Planning(
            lookup,
            ledger,
            EdgesTable(client, settings.followers_table),
            lanes,
            Loop(ours, join_seconds=JOIN_SECONDS),
        )
        for each in (tables, client, queue, ours.entries.client):
            if close := getattr(each, "close", None):  # libcurl's client has none
                ends.callback(close)
        if threads := getattr(ours, "threads", None):
            ends.callback(threads.shutdown)
        yield Service(planning, delivering, tables, queues, url)


@pytest.fixture(params=names.TRANSPORTS)
def service(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Way], Service]]:
    """A function that starts a service, which ends with the test."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as ends:
        yield lambda way: ends.enter_context(serving_workers(request.param, way, monkeypatch))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine no call is given up, and repeated."""
    for module in (retries, boto):
        monkeypatch.setattr(module, "CONNECT_TIMEOUT_SECONDS", 30)
        monkeypatch.setattr(module, "READ_TIMEOUT_SECONDS", 30)


def followers(count: int) -> list[str]:
    return [f"follower-{number}" for number in range(count)]


ODD = [
    QUOTES,
    "日本語",
    "\N{GRINNING FACE}",
    "\\u0041",
    "a\nb\x00c\x7f",
    "\u2028\ufeff",
    "x" * 900,
    "ada+tag@example.org",
]


# Without faults


@pytest.mark.usefixtures("patient")
def test_every_entry_is_written_once_and_correct(service: Callable[[Way], Service]) -> None:
    """The expected items are the same for both transports."""
    written: list[str] = []

    def capturing(backend: Backend) -> Backend:
        def answer(request: Request) -> Answer:
            if request.operation == BATCH:
                ((_, puts),) = json.loads(request.body)["RequestItems"].items()
                written.extend(_spelled(put["PutRequest"]["Item"]) for put in puts)
            return backend(request)

        return answer

    users = [*followers(4_000), *ODD]
    here = service(capturing)
    here.publish(users)
    here.work()
    here.assert_complete(users)
    assert sorted(written) == sorted(_spelled(_entry(user)) for user in users)
    assert here.outcomes == {"delivered": 1}


# With faults


@pytest.fixture
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait seconds for the last entries of each segment."""
    monkeypatch.setattr(batch_retries, "BACKOFF_CAP_SECONDS", 0.1)


def faulty(rates: Rates, counted: Counter[str]) -> Way:
    """Faults at these rates on the way to the tables, counted by kind."""

    def way(backend: Backend) -> Backend:
        return FaultyBatches(backend, rates, seed=1, counted=counted).answer

    return way


def assert_met(counted: Counter[str], rates: Rates) -> None:
    """Every fault with a rate above 0 has happened, and no other."""
    for name in ("partial", "throttled"):
        assert bool(counted[name]) is bool(getattr(rates, name))
    for name in ("broken", "reset"):
        for when in ("before", "after"):
            assert bool(counted[f"{name} {when}"]) is bool(getattr(rates, name))
    others = sum(counted[f"other {name}"] for name in OTHERS)
    assert bool(others) is bool(rates.others)


@pytest.mark.usefixtures("_short_waits")
def test_every_follower_has_one_entry_despite_faults(service: Callable[[Way], Service]) -> None:
    counted: Counter[str] = Counter()
    users = followers(3_000)
    here = service(faulty(BAD_DAY, counted))
    here.publish(users, segments=8)
    here.work()
    here.assert_complete(users)
    assert_met(counted, BAD_DAY)


@pytest.mark.usefixtures("_short_waits")
def test_repeated_hand_backs_leave_no_follower_out(
    service: Callable[[Way], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_retries, "RETRY_ENTRIES", 200)
    counted: Counter[str] = Counter()
    users = followers(1_000)
    here = service(faulty(WORST_DAY, counted))
    here.publish(users, segments=2)
    here.work()
    here.assert_complete(users)
    assert here.outcomes["handed back"] > 2
    assert_met(counted, WORST_DAY)


# In one hop


# The lookup and the first page of followers, three batches of entries, and the ledger.
@pytest.mark.usefixtures("patient")
def test_two_copies_of_an_order_at_once_share_the_loop(service: Callable[[Way], Service]) -> None:
    users = followers(900)
    here = service(lambda backend: late(backend, 0.02))
    here.accept(users)
    with pool(2) as workers:
        outcomes = [workers.submit(here.plan) for _ in range(2)]
    assert {outcome.result() for outcome in outcomes} <= {"delivered", COMPLETE}
    here.assert_complete(users)
    assert here.plan() == COMPLETE


@pytest.mark.usefixtures("_short_waits")
def test_what_begins_in_one_hop_ends_with_every_entry_counted_once(
    service: Callable[[Way], Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_retries, "RETRY_ENTRIES", 200)
    users = followers(1_000)
    here = service(faulty(WORST_DAY, Counter()))
    here.accept(users)
    for attempt in range(MAX_TURNS):
        try:
            here.plan(redelivered=attempt > 0)
        except Exception as error:
            if not is_transient(error):
                raise
        else:
            break
    here.work()
    here.assert_complete(users)
