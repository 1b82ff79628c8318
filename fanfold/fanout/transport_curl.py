"""The libcurl transport: one thread, all calls at once, most of each body built in advance."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fanfold.aws.answers import Lost, decode, encode
from fanfold.aws.curl import Connections, Ended
from fanfold.fanout.policy import Send
from fanfold.fanout.transport import Finished
from fanfold.follows.edges_table import EdgesTable, page_of
from fanfold.follows.ring import POSITION_DIGITS
from fanfold.follows.ring_reader import Page, Read
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
    def calls(self, entry: Entry) -> Iterator[CurlCalls]:
        """The calls that deliver `entry`; on exit, calls in flight are cancelled."""
        self.connections.renew()
        try:
            yield CurlCalls(self, entry.publisher_id, Body(self.entries, entry))
        finally:
            self.connections.forget()


@dataclass(frozen=True)
class CurlCalls:
    transport: CurlTransport
    publisher_id: str
    body: Body

    def start(self, action: Read | Send) -> None:
        to = self.transport
        if isinstance(action, Send):
            users = [edge[_FOLLOWER:] for edge in action.edges]
            to.connections.start("BatchWriteItem", self.body.of(users), action)
        else:
            page = to.edges_table.page_request(self.publisher_id, action)
            to.connections.start("Query", encode(page), action)

    def finished(self, seconds: float | None) -> list[Finished]:
        ended = self.transport.connections.finished(seconds)
        return [Finished(call.tag, self._result(call)) for call in ended]

    def _result(self, call: Ended) -> Page | Collection[str] | Exception:
        body = call.result
        if isinstance(body, Exception):
            return body
        if body == ALL_WRITTEN:
            return ()
        try:
            if isinstance(call.tag, Read):
                return page_of(decode("Query", body))
            return self.transport.entries.unwritten(decode("BatchWriteItem", body))
        except Lost as error:
            return error
