"""The libcurl transport: one thread, all calls at once, most of each body made beforehand."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from fanfold.aws.curl import Connections, Ended, Lost, decode, encode
from fanfold.fanout.policy import Send
from fanfold.fanout.transport import Finished
from fanfold.follows.edges_table import EdgesTable, page_of
from fanfold.follows.ring import POSITION_DIGITS
from fanfold.follows.ring_reader import Page, Read
from fanfold.timeline.entries import Entries, Entry

# Where an edge's follower begins (ring.follower_of, without a call for each of 25).
_FOLLOWER = POSITION_DIGITS + 1
# What most batches are answered with, byte for byte; nothing in it needs to be parsed.
ALL_WRITTEN = b'{"UnprocessedItems":{}}'
# In no id and no time.
_MARK = "\0"


class Body:
    """Bodies of BatchWriteItem that differ in the users alone."""

    def __init__(self, timelines: Entries, entry: Entry) -> None:
        whole = encode(timelines.push_request(entry, [_MARK, _MARK])).decode()
        self._head, self._between, self._tail = whole.split(json.dumps(_MARK)[1:-1])

    def of(self, users: Sequence[str]) -> bytes:
        """The body that puts the entry into these users' timelines."""
        if not _is_plain("".join(users)):
            users = [json.dumps(user)[1:-1] for user in users]
        return f"{self._head}{self._between.join(users)}{self._tail}".encode()


def _is_plain(text: str) -> bool:
    """Whether JSON spells a text as it is."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


@dataclass(frozen=True)
class CurlTransport:
    """Makes calls through libcurl."""

    followers: EdgesTable
    timelines: Entries
    connections: Connections

    @contextmanager
    def calls(self, entry: Entry) -> Iterator[CurlCalls]:
        """To deliver `entry`; calls in flight at the end are broken off."""
        self.connections.renew()
        try:
            yield CurlCalls(self, entry.publisher_id, Body(self.timelines, entry))
        finally:
            self.connections.forget()


@dataclass(frozen=True)
class CurlCalls:
    """The calls of one delivery."""

    transport: CurlTransport
    publisher_id: str
    body: Body

    def start(self, action: Read | Send) -> None:
        """Begin a call."""
        to = self.transport
        if isinstance(action, Send):
            users = [edge[_FOLLOWER:] for edge in action.edges]
            to.connections.start("BatchWriteItem", self.body.of(users), action)
        else:
            page = to.followers.page_request(self.publisher_id, action)
            to.connections.start("Query", encode(page), action)

    def finished(self, seconds: float | None) -> list[Finished]:
        """Wait for calls to end, at most so long, or until one does; those that have ended."""
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
            return self.transport.timelines.unwritten(decode("BatchWriteItem", body))
        except Lost as error:
            return error
