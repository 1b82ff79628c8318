"""Calls of a delivery through libcurl, and of the general client, on one `Connections`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fanfold.aws.connections import Connections
from fanfold.aws.curl import Client
from fanfold.fanout.transport.curl_transport import CurlTransport
from fanfold.fanout.transport.loop import Call, Finished, Job
from fanfold.fanout.worker_steps import Send
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.ring import edge
from fanfold.follows.ring_reader import Read
from fanfold.timeline.entries import Entries, Entry

ENTRY = Entry("2026-11-20T18:00:00.123Z#post-1", "ada", 1_900_000_000)


def transport(connections: Connections) -> CurlTransport:
    client: Any = Client(connections)
    return CurlTransport(EdgesTable(client, "Followers"), Entries(client, "Timelines"), connections)


def batch(number: int, *users: str) -> Send:
    return Send(number, [edge(user) for user in users])


def call(action: Read | Send) -> Call:
    delivery: Any = None  # a transport does not ask it
    return Call(Job(delivery, ENTRY), action)


def make(transport: CurlTransport, *actions: Read | Send) -> list[Finished]:
    """Start all calls at once; their results in the order in which they ended."""
    ended: list[Finished] = []
    with transport.calls() as calls:
        for action in actions:
            calls.start(call(action))
        while len(ended) < len(actions):
            ended += calls.finished(None)
    return ended


def by_client(connections: Connections) -> Any:
    """The answer to one call of the general client, without retries."""
    client = Client(connections, attempts=1)
    return client.get_item(TableName="Posts", Key={"ref_id": {"S": "post-1"}})


def by_delivery(connections: Connections) -> Any:
    """The result of one batch of a delivery."""
    (ended,) = make(transport(connections), batch(1, "bob"))
    if isinstance(ended.result, Exception):
        raise ended.result
    return ended.result


WAYS: list[Callable[[Connections], Any]] = [by_client, by_delivery]
