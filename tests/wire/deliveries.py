"""A delivery's calls through libcurl, and any call of the general client, on one `Connections`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fanfold import wire
from fanfold.delivery import Send
from fanfold.followers import Followers
from fanfold.ring import edge
from fanfold.ringread import Read
from fanfold.timelines import Entry, Timelines
from fanfold.transport import Finished
from fanfold.transport_curl import CurlTransport

ENTRY = Entry("2026-11-20T18:00:00.123Z#post-1", "ada", 1_900_000_000)


def transport(connections: wire.Connections) -> CurlTransport:
    """DELIVER's, on tables that this server stands for."""
    client: Any = wire.Client(connections)
    return CurlTransport(
        Followers(client, "Followers"), Timelines(client, "Timelines"), connections
    )


def batch(number: int, *users: str) -> Send:
    """A batch of entries for these users."""
    return Send(number, [edge(user) for user in users])


def make(transport: CurlTransport, *actions: Read | Send) -> list[Finished]:
    """Make calls, all at once; how each ended, in the order in which they did."""
    ended: list[Finished] = []
    with transport.calls(ENTRY) as calls:
        for action in actions:
            calls.start(action)
        while len(ended) < len(actions):
            ended += calls.finished(None)
    return ended


def by_client(connections: wire.Connections) -> Any:
    """The answer to one call of the general client, which it makes once."""
    client = wire.Client(connections, attempts=1)
    return client.get_item(TableName="Posts", Key={"ref_id": {"S": "post-1"}})


def by_delivery(connections: wire.Connections) -> Any:
    """The result of one batch of a delivery."""
    (ended,) = make(transport(connections), batch(1, "bob"))
    if isinstance(ended.result, Exception):
        raise ended.result
    return ended.result


WAYS: list[Callable[[wire.Connections], Any]] = [by_client, by_delivery]
