"""What tests of one module stand on: tables, a fan-out and its post, queues."""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import Meter
from aws_model.dynamodb.database import Database
from fanfold.fanout.row import Fanout
from fanfold.messages import Message
from fanfold.names import Table
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
