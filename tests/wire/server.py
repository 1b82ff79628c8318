"""A server on loopback that gives scripted answers and records the requests."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

LOOPBACK = "127.0.0.1"
JSON = "application/x-amz-json-1.0"
# What happens to the connection after an answer.
KEEP, CLOSE, RESET, SILENCE = "keep", "close", "reset", "silence"
# Longer than any test, so that a leaked thread ends too.
TIMEOUT_SECONDS = 30


@dataclass(frozen=True)
class Call:
    """A request as it arrived, and the number of its connection."""

    connection: int
    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str:
        """The only header of this name, or an empty text."""
        found = [value for each, value in self.headers if each.lower() == name]
        assert len(found) <= 1, f"{name} came more than once"
        return found[0] if found else ""

    @property
    def operation(self) -> str:
        return self.header("x-amz-target").rpartition(".")[2]

    @property
    def content(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """The bytes of an answer, and what happens to the connection afterwards."""

    raw: bytes
    then: str = KEEP


def reply(
    body: Any = None,
    status: str = "200 OK",
    *,
    headers: Mapping[str, str | None] | None = None,
    length: int | None = None,
    then: str = KEEP,
) -> Reply:
    """An answer as DynamoDB gives it; `headers` and `length` belie the body where they say so.

    A body that is not bytes is spelled as JSON; a header that is None is left out.
    """
    content = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    sent = {
        "Content-Type": JSON,
        "Content-Length": len(content) if length is None else length,
        "x-amz-crc32": zlib.crc32(content),
        **(headers or {}),
    }
    lines = [f"HTTP/1.1 {status}", *(f"{n}: {v}" for n, v in sent.items() if v is not None), "", ""]
    return Reply("\r\n".join(lines).encode() + content, then)


def refusal(code: str, status: str = "400 Bad Request", **more: Any) -> Reply:
    """An error in DynamoDB's form."""
    kind = f"com.amazonaws.dynamodb.v20120810#{code}"
    return reply({"__type": kind, "message": "No.", **more}, status)


OK = reply()
Answering = Callable[[Call], Reply]


@dataclass
class Server:
    """Answers every call by `answer`, which a test may change at any time."""

    url: str
    answer: Answering
    calls: list[Call] = field(default_factory=list)
    opened: int = 0  # connections, ever
    _sockets: set[socket.socket] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer_in_turn(self, *replies: Reply) -> None:
        """Set the answers to the next calls; later calls succeed."""
        left = list(replies)

        def answer(_call: Call) -> Reply:
            with self._lock:
                return left.pop(0) if left else OK

        self.answer = answer

    def close_connections(self) -> None:
        """Close all open connections, as a server does with idle ones."""
        with self._lock:
            for each in self._sockets:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def serve(self, listening: socket.socket, context: ssl.SSLContext | None) -> None:
        """Accept connections until the listening socket is closed."""
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            accepted.settimeout(TIMEOUT_SECONDS)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.opened += 1
            run = threading.Thread(target=self._run, args=(self.opened, accepted, context))
            run.daemon = True
            run.start()

    def _run(self, number: int, accepted: socket.socket, context: ssl.SSLContext | None) -> None:
        try:
            own = context.wrap_socket(accepted, server_side=True) if context else accepted
        except OSError:
            accepted.close()
            return
        with self._lock:
            self._sockets.add(own)
        try:
            with suppress(OSError):  # the caller is gone
                self._answer_all(number, own)
        finally:
            with self._lock:
                self._sockets.discard(own)
            own.close()

    def _answer_all(self, number: int, own: socket.socket) -> None:
        with own.makefile("rb") as stream:
            while (call := _read(number, stream)) is not None:
                with self._lock:
                    self.calls.append(call)
                answer = self.answer(call)
                own.sendall(answer.raw)
                if answer.then == SILENCE:
                    stream.read(1)  # until the caller has enough
                if answer.then == RESET:
                    own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                if answer.then != KEEP:
                    return


def _read(number: int, stream: BinaryIO) -> Call | None:
    line = stream.readline().decode("latin-1").split()
    if len(line) != 3:
        return None
    headers = []
    while text := stream.readline().decode("latin-1").rstrip("\r\n"):
        name, _, value = text.partition(":")
        headers.append((name, value.strip()))
    length = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Call(number, line[0], line[1], tuple(headers), stream.read(length))


@contextmanager
def serving(
    answer: Answering = lambda _call: OK, *, context: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[Server]:
    """A server on a port of its own; with a context, over TLS."""
    listening = socket.create_server((LOOPBACK, port), backlog=256)
    scheme = "https" if context else "http"
    server = Server(f"{scheme}://{LOOPBACK}:{listening.getsockname()[1]}", answer)
    accepting = threading.Thread(target=server.serve, args=(listening, context), daemon=True)
    accepting.start()
    try:
        yield server
    finally:
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)  # ends `accept`
        listening.close()
        accepting.join()
        server.close_connections()
