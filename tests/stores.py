"""What tests of one use case stand on: tables, a fan-out and its post, queues."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fanfold import times
from fanfold.aws.items import number, text
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.row import ENTRIES_EXPIRE_AT, Fanout
from fanfold.follows.follows_table import FollowsTable
from fanfold.follows.relation import Follow
from fanfold.messages import Message
from fanfold.names import FANOUTS, Table
from fanfold.sweep.oldest import Oldest
from fanfold.sweep.sweep import Sweeping, Swept
from fanfold.timeline.entries import Entries, Entry, found
from fanfold.timeline.page_reads import Range
from fanfold.timeline.posts import Post
from proof.model.clock import Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.database import Database
from proof.simulation.stage import stores
from proof.simulation.world.schemas import schema_of
from tests import service

AT = "2026-11-20T18:00:00.123Z"
ROW = Fanout(
    fanout_id="post-1",
    publisher_id="ada",
    sort_key=f"{AT}#post-1",
    accepted_at=AT,
    expires_at=1_900_000_000,
)
POST = Post(
    ref_id="post-1", publisher_id="ada", published_at=AT, accepted_at=AT, expires_at=1_900_000_000
)


def client_of(
    *tables: Table, clock: Clock | None = None, validates: bool = True, **about: Any
) -> Any:
    """A client of these tables, which are empty; it `validates` what it is given as botocore."""
    database = Database(clock or Clock(), **about)
    database.create(*map(schema_of, tables))
    return dynamodb.Client(database, validates=validates)


def written(
    table: FollowsTable, seen: Follow, state: str, *, now_ms: int, max_follows: int = 9, **how: Any
) -> Follow | None:
    """Write a relation in this state over the one seen; None if it has changed meanwhile."""
    target = replace(seen, state=state)
    done = table.write([(seen, target)], now_ms=now_ms, max_follows=max_follows, **how)
    return done[0] if done else None


def ask_again(table: FollowsTable, seen: Follow, *, now_ms: int) -> Follow | None:
    """Write that the state of a relation was requested again."""
    return written(table, seen, seen.state, now_ms=now_ms)


def page_of(
    timelines: Entries, user_id: str, within: Range, *, start: str | None, limit: int, **order: bool
) -> tuple[list[Entry], bool]:
    """One Query of a timeline, newest first, and whether more may follow."""
    order = {"ScanIndexForward": False, **order}
    request = timelines.request(user_id, within, start=start, limit=limit, **order)
    return found(timelines.client.query(**request))


@dataclass
class Queue:
    """Keeps what is sent, unless it cannot be reached."""

    error: Exception | None = None
    sent: list[Message] = field(default_factory=list)
    threads: Executor | None = None  # of the last sender
    url: str = ""

    def send(self, *messages: Message, threads: Executor | None = None) -> None:
        if self.error:
            raise self.error
        self.sent += messages
        self.threads = threads


class Tables:
    """Tables of the model, the stores of the ledger, and the queues of its orders."""

    def __init__(self, *others: Table, validates: bool = True) -> None:
        self.client = client_of(FANOUTS, *others, validates=validates)
        self.ledger = stores(self.client).ledger
        self.open = stores(self.client).open_fanouts
        self.commands: Any = Queue(url="Publish")
        self.express, self.bulk = Queue(url="Express"), Queue(url="Bulk")
        self.lanes = Lanes(self.express, self.bulk)  # type: ignore[arg-type]

    @property
    def sent(self) -> list[Message]:
        """What the lanes got."""
        return self.express.sent + self.bulk.sent

    @property
    def row(self) -> Fanout:
        return self.row_of("post-1")

    def row_of(self, fanout_id: str) -> Fanout:
        found = self.ledger.get(fanout_id)
        assert found
        return found

    def put(self, row: Fanout) -> None:
        """Let the ledger hold a row, however it came to be so."""
        spelled: dict[type, Any] = {
            str: text,
            int: number,
            frozenset: lambda numbers: {"NS": [*map(str, numbers)]},
            dict: lambda each: {"M": {str(key): text(each[key].to_text()) for key in each}},
        }
        # DynamoDB keeps no empty set.
        fields = {name: value for name, value in vars(row).items() if value != frozenset()}
        item = {name: spelled[type(value)](value) for name, value in fields.items()}
        item[ENTRIES_EXPIRE_AT] = item.pop("expires_at")
        self.client.put_item(TableName=FANOUTS.name, Item=item)


class SweepStage(Tables):
    """SWEEP over open fan-outs, its clock, and the queues whose mappings are paused."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, validates: bool = True) -> None:
        super().__init__(validates=validates)
        self.clock = service.Clock()
        service.keep_time(monkeypatch, self.clock, self.clock.monotonic)
        self.paused: set[str] = set()
        self.swept: list[Swept] = []

    def is_paused(self, url: str) -> bool:
        return url in self.paused

    def sweep(self, *, within: float = 40.0) -> Oldest:
        """A run with time enough, in seconds, unless it is said otherwise."""
        mappings: Any = self
        run = Sweeping(self.open, self.ledger, self.commands, self.lanes, mappings)
        stop_at = self.clock.monotonic() + within
        return run.sweep(stop_at=stop_at, report=self.swept.append)

    def add(self, *ids: str, segments: int = 0, is_sent: bool = False) -> None:
        """Accept fan-outs, and plan them; their orders are lost unless they are sent."""
        for fanout_id in ids:
            now = times.to_text(self.clock.ms)
            row = replace(ROW, fanout_id=fanout_id, accepted_at=now)
            self.ledger.open(row)
            if segments:
                self.ledger.plan(row, segments=segments, followers=9, level=0, now=now)
            if is_sent:
                self.lanes.send_pending(self.row_of(fanout_id))
