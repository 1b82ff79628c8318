"""The real transport over sockets, to the model behind an HTTP endpoint, and the same without them.

It shows whether the benches in virtual time say what libcurl and a real clock say: one worker, and
a table that takes half of what the worker begins to believe in.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from aws_model.clock import START_MS
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.capacity import Limits
from aws_model.endpoint import answering_from, late, serving
from fanfold import clock
from fanfold.aws import curl
from fanfold.aws.curl import Connections
from fanfold.fanout.pacing import Pace
from fanfold.fanout.policy import Delivery, Done
from fanfold.fanout.transport import Transport, run
from fanfold.fanout.transport_curl import CurlTransport
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.ids import sort_key
from fanfold.names import FOLLOWERS, TIMELINES
from fanfold.timeline.entries import Entries, Entry
from simulation.timed.system import POST, PUBLISHER, Model, ModelTransport
from simulation.timed.tables import follow

# One core makes and answers the calls, so slowly enough for it to keep up.
TABLE = Limits(partition_writes=250)
TABLE_WRITES = TABLE.partitions * TABLE.partition_writes
WORKER_RATE = 2 * TABLE_WRITES
PATIENCE_SECONDS = 60
# With the way there and back, about what a call takes in virtual time.
LATE_SECONDS = 0.004
ENTRY = Entry(sort_key("2026-11-20T18:00:00.000Z", POST), PUBLISHER, START_MS // 1_000 + 86_400)


@dataclass(frozen=True)
class Delivered:
    """What came of one delivery."""

    users: int
    puts: int
    refused: int
    seconds: float  # until the last follower had it

    @property
    def throttled_percent(self) -> float:
        """Of the entries sent, so many came back."""
        return 100 * self.refused / (self.puts + self.refused)


class InRealTime(dynamodb.Client):
    """A client of the model whose clock goes with ours."""

    def __init__(self, model: Model) -> None:
        super().__init__(model.database)
        self._began = time.monotonic()

    def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """Any operation, at the time that it is."""
        self.state.clock.advance_to(time.monotonic() - self._began)
        return super().call(operation, request)


def over_sockets(followers: int) -> Delivered:
    """Deliver through libcurl and loopback."""
    model = _model(followers)
    with serving(late(answering_from(InRealTime(model)), LATE_SECONDS)) as url:
        connections = Connections(
            curl.DYNAMODB,
            {
                "AWS_ACCESS_KEY_ID": "ASIAIOSFODNN7EXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "AWS_REGION": "eu-central-1",
                "AWS_ENDPOINT_URL_DYNAMODB": url,
            },
        )
        client: Any = curl.Client(connections)
        transport = CurlTransport(
            EdgesTable(client, FOLLOWERS.name), Entries(client, TIMELINES.name), connections
        )
        _deliver(transport)
    return _delivered(model)


def in_virtual_time(followers: int) -> Delivered:
    """Deliver the same through the transport of the model."""
    model = _model(followers)
    is_done = False

    def act() -> None:
        nonlocal is_done
        _deliver(ModelTransport(model))
        is_done = True

    with model.installed():
        model.loop.start(act)
        model.loop.run(lambda: is_done)
    return _delivered(model)


def _model(followers: int) -> Model:
    model = Model(int(TABLE_WRITES), TABLE)
    follow(model.database, PUBLISHER, followers)
    return model


def _deliver(transport: Transport) -> None:
    delivery = Delivery(
        start=ring.START,
        hi=ring.END,
        stop_at=clock.monotonic() + PATIENCE_SECONDS,
        chance=clock.chance,
        pace=Pace(WORKER_RATE),
    )
    end = run(delivery, transport, ENTRY)
    if not isinstance(end, Done):
        raise RuntimeError(f"The delivery did not come to its end: {end}.")


def _delivered(model: Model) -> Delivered:
    written = model.written(POST)
    refused = model.meter.throttled["TableWriteKeyRangeThroughputExceeded"]
    return Delivered(len(written.users), written.puts, refused, written.last_at)
