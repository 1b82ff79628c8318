"""What tests of one use case stand on: tables, a fan-out and its post, queues."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import Meter
from aws_model.dynamodb.database import Database
from fanfold.aws.items import number, text
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import ENTRIES_EXPIRE_AT, Fanout
from fanfold.messages import Message
from fanfold.names import FANOUTS, Table
from fanfold.sweep.open_fanouts import OpenFanouts
from fanfold.timeline.posts import Post
from simulation.schemas import schema_of

AT = "2026-11-20T18:00:00.123Z"
ROW = Fanout(
    fanout_id="post-1",
    publisher_id="ada",
    sort_key=f"{AT}#post-1",
    accepted_at=AT,
    expires_at=1_900_000_000,
)
POST = Post(
    ref_id="post-1",
    publisher_id="ada",
    published_at=AT,
    accepted_at=AT,
    expires_at=1_900_000_000,
)


def client_of(*tables: Table, clock: Clock | None = None, meter: Meter | None = None) -> Any:
    """A client of these tables, which are empty."""
    database = Database(clock or Clock(), meter=meter)
    database.create(*map(schema_of, tables))
    return dynamodb.Client(database)


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

    def __init__(self, *others: Table) -> None:
        self.client = client_of(FANOUTS, *others)
        self.ledger = Ledger(self.client, FANOUTS.name)
        self.open = OpenFanouts(self.client, FANOUTS.name)
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
