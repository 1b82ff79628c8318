"""The libcurl transport: one thread, all calls at once, most of each body built in advance."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fanfold.aws.connections import Connections, Ended
from fanfold.aws.json_protocol import Lost, decode, encode
from fanfold.fanout.transport.loop import Call, Finished
from fanfold.fanout.worker_steps import Send
from fanfold.follows.edges_table import EdgesTable, page_of
from fanfold.follows.ring import POSITION_DIGITS
from fanfold.follows.ring_reader import EdgePage
from fanfold.timeline.entries import Entries, Entry

# Index of the follower in an edge (ring.follower_of, without a call for each of 25 edges).
_FOLLOWER = POSITION_DIGITS + 1
# The answer to most batches, byte for byte; comparing is cheaper than parsing.
ALL_WRITTEN = b'{"UnprocessedItems":{}}'
# Occurs in no id and no time.
_MARK = "\0"


class Body:
    """Bodies of BatchWriteItem that differ only in the users."""

    def __init__(self, entries: Entries, entry: Entry) -> None:
        whole = encode(entries.push_request(entry, [_MARK, _MARK])).decode()
        self._head, self._between, self._tail = whole.split(json.dumps(_MARK)[1:-1])

    def of(self, users: Sequence[str]) -> bytes:
        if not _is_plain("".join(users)):
            users = [json.dumps(user)[1:-1] for user in users]
        return f"{self._head}{self._between.join(users)}{self._tail}".encode()


def _is_plain(text: str) -> bool:
    """Whether a JSON string holds the text unescaped."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


@dataclass(frozen=True)
class CurlTransport:
    """Makes calls through libcurl."""

    edges_table: EdgesTable
    entries: Entries
    connections: Connections

    @contextmanager
    def calls(self) -> Iterator[CurlCalls]:
        """The calls of deliveries; on exit, calls in flight are cancelled."""
        self.connections.renew()
        try:
            yield CurlCalls(self)
        finally:
            self.connections.forget()


@dataclass(frozen=True)
class CurlCalls:
    transport: CurlTransport
    _bodies: dict[Entry, Body] = field(default_factory=dict)

    def start(self, call: Call) -> None:
        to, entry, action = self.transport, call.job.entry, call.action
        if isinstance(action, Send):
            body = self._bodies.get(entry)
            if body is None:
                body = self._bodies[entry] = Body(to.entries, entry)
            users = [edge[_FOLLOWER:] for edge in action.edges]
            to.connections.start("BatchWriteItem", body.of(users), call)
        else:
            page = to.edges_table.page_request(entry.publisher_id, action)
            to.connections.start("Query", encode(page), call)

    def finished(self, seconds: float | None) -> list[Finished]:
        ended = self.transport.connections.finished(seconds)
        return [Finished(each.tag, self._result(each)) for each in ended]

    def _result(self, ended: Ended) -> EdgePage | Collection[str] | Exception:
        body = ended.result
        if isinstance(body, Exception):
            return body
        if body == ALL_WRITTEN:
            return ()
        try:
            if isinstance(ended.tag.action, Send):
                return self.transport.entries.unwritten(decode("BatchWriteItem", body))
            return page_of(decode("Query", body))
        except Lost as error:
            return error
