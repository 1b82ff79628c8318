"""One delivery over real sockets to the model behind HTTP, and the same in virtual time.

It shows whether virtual time agrees with libcurl and a real clock: one worker, and a table that
takes half of the rate that the worker starts with.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from fanfold import clock
from fanfold.aws import curl
from fanfold.aws.connections import DYNAMODB, Connections
from fanfold.fanout.pacing import Pace
from fanfold.fanout.transport.curl_transport import CurlTransport
from fanfold.fanout.transport.loop import Transport, run
from fanfold.fanout.worker_steps import Delivery, Done
from fanfold.follows import ring
from fanfold.ids import sort_key
from fanfold.timeline.entries import Entry
from proof.model.clock import START_MS
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import Limits
from proof.model.endpoint import answering_from, late, serving
from proof.simulation.stage import stores
from proof.simulation.timed.system import POST, PUBLISHER, System
from proof.simulation.timed.tables import follow

# Slow enough for one core, which both makes and answers the calls.
TABLE = Limits(partition_writes=250)
TABLE_WRITES = TABLE.partitions * TABLE.partition_writes
WORKER_RATE = 2 * TABLE_WRITES
PATIENCE_SECONDS = 60
# With the round trip, about the duration of a call in virtual time.
LATE_SECONDS = 0.004
ENTRY = Entry(sort_key("2026-11-20T18:00:00.000Z", POST), PUBLISHER, START_MS // 1_000 + 86_400)


@dataclass(frozen=True)
class Delivered:
    users: int
    puts: int
    throttled: int
    seconds: float  # until the last follower has it

    @property
    def throttled_percent(self) -> float:
        """The share of sent entries that came back."""
        return 100 * self.throttled / (self.puts + self.throttled)


class InRealTime(dynamodb.Client):
    """A client of the model whose clock follows the real one."""

    def __init__(self, system: System) -> None:
        super().__init__(system.database)
        self._began = time.monotonic()

    def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        self.state.clock.advance_to(time.monotonic() - self._began)
        return super().call(operation, request)


def over_sockets(followers: int) -> Delivered:
    """Deliver through libcurl and loopback."""
    system = _system(followers)
    with serving(late(answering_from(InRealTime(system)), LATE_SECONDS)) as url:
        connections = Connections(
            DYNAMODB,
            {
                "AWS_ACCESS_KEY_ID": "ASIAIOSFODNN7EXAMPLE",
                "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
                "AWS_REGION": "eu-central-1",
                "AWS_ENDPOINT_URL_DYNAMODB": url,
            },
        )
        client: Any = curl.Client(connections)
        transport = CurlTransport(stores(client).edges, stores(client).entries, connections)
        _deliver(transport)
    return _delivered(system)


def in_virtual_time(followers: int) -> Delivered:
    """Deliver the same through the transport of the model."""
    system = _system(followers)
    with system.virtual_time():
        task = system.scheduler.start(lambda: _deliver(system.transport))
        system.scheduler.run(lambda: bool(task.dead))
    return _delivered(system)


def _system(followers: int) -> System:
    system = System(int(TABLE_WRITES), TABLE)
    follow(system.database, PUBLISHER, followers)
    return system


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


def _delivered(system: System) -> Delivered:
    written = system.written(POST)
    throttled = system.meter.throttled["TableWriteKeyRangeThroughputExceeded"]
    return Delivered(len(written.users), written.puts, throttled, written.last_at)
