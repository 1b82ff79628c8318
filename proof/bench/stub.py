"""A stub of DynamoDB and SQS: over TLS, on loopback, in a process of its own.

`python -m proof.bench.stub CERTIFICATE CORE` prints its port on the first line of standard output,
and serves until its standard input ends.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import zlib
from collections import deque

from proof.bench import cores, stub_data

LOOPBACK = "127.0.0.1"
# Bodies of the latest batches, kept for checks: 100 batches hold 2,500 entries.
KEPT = 100
# An operation of the stub alone: the number of entries put since the last such call, and batches.
WRITTEN = b"proof.bench.written"

_TARGET = b"x-amz-target: "
_LENGTH = b"content-length: "


def reply(body: bytes, status: bytes = b"200 OK") -> bytes:
    """An answer on the wire, with DynamoDB's headers."""
    return (
        b"HTTP/1.1 %b\r\nServer: Server\r\nDate: Fri, 20 Nov 2026 18:00:00 GMT\r\n"
        b"Content-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n"
        b"Connection: keep-alive\r\n"
        b"x-amzn-RequestId: 2T4MF2V9H3JSHQ6RK0Q3GMBD17VV4KQNSO5AEMVJF66Q9ASUAAJG\r\n"
        b"x-amz-crc32: %d\r\n\r\n%b" % (status, len(body), zlib.crc32(body), body)
    )


def answered(operation: str, body: bytes) -> bytes:
    """The answer to any call other than BatchWriteItem."""
    try:
        return reply(stub_data.answer(operation, json.loads(body or b"{}")))
    except (KeyError, ValueError):
        error = {"__type": "com.amazonaws.dynamodb#ValidationException", "message": operation}
        return reply(json.dumps(error).encode(), b"400 Bad Request")


class Counted:
    """The entries put, and the latest calls, since the last `drain`."""

    def __init__(self) -> None:
        self.entries = 0
        self.batches: deque[bytes] = deque(maxlen=KEPT)
        self.operations: deque[bytes] = deque(maxlen=KEPT)

    def count(self, body: bytes) -> None:
        self.entries += body.count(b'"PutRequest"')
        self.batches.append(body)

    def drain(self) -> bytes:
        """What was counted, as JSON; counting starts again at zero."""
        operations = json.dumps([each.decode() for each in self.operations]).encode()
        batches = b",".join(self.batches)
        kept = b'{"entries":%d,"batches":[%b],"operations":%b}' % (
            self.entries,
            batches,
            operations,
        )
        self.entries = 0
        self.batches.clear()
        self.operations.clear()
        return kept


COUNTED = Counted()
NOTHING_LEFT = reply(b'{"UnprocessedItems":{}}')


class Connection(asyncio.Protocol):
    """One connection, kept alive: requests one after the other, each with its length."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        """Answer every request that has arrived whole."""
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end].lower() + b"\r\n"
            until = end + 4 + int(_header(head, _LENGTH) or 0)
            if len(self.buffer) < until:
                return
            body, self.buffer = self.buffer[end + 4 : until], self.buffer[until:]
            self.transport.write(_answer(_header(head, _TARGET), body))


def _header(head: bytes, name: bytes) -> bytes:
    """The value of a header, or nothing."""
    begin = head.find(name) + len(name)
    return head[begin : head.index(b"\r\n", begin)] if begin >= len(name) else b""


def _answer(target: bytes, body: bytes) -> bytes:
    operation = target.rpartition(b".")[2].decode()
    if target != WRITTEN:
        COUNTED.operations.append(target)
    if operation == "batchwriteitem":
        COUNTED.count(body)
        return NOTHING_LEFT
    if target == WRITTEN:
        return reply(COUNTED.drain())
    return answered(operation, body)


async def serve(certificate: str) -> None:
    """Serve until standard input ends, so that no stub outlives its bench."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, LOOPBACK, 0, ssl=context, backlog=256)
    print(server.sockets[0].getsockname()[1], flush=True)
    ended = asyncio.Event()
    loop.add_reader(sys.stdin.fileno(), ended.set)
    await ended.wait()


if __name__ == "__main__":
    cores.pin(int(sys.argv[2]))
    asyncio.run(serve(sys.argv[1]))
