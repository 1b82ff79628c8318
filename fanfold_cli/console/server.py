"""The HTTP server of the page: on loopback, for the page that knows the key from its address.

A page of another site reaches loopback too, through its visitor's browser. It does not know the
key, which no request has in its path. Its `Origin` names its site, and its `Host` is wrong after
DNS rebinding. The key is the only credential that the page holds.
"""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any, ClassVar, Final

from fanfold_cli.terminal import ExpectedError

LOOPBACK: Final = "127.0.0.1"
KEY_BYTES: Final = 32
KEY_HEADER: Final = "x-fanfold-key"
# Enough for a confirmed command.
MAX_BODY: Final = 10_000
# Longer content lengths are refused; Python refuses to parse numbers of thousands of digits.
MAX_DIGITS: Final = 20
# A silent connection is closed after this time.
SILENT_SECONDS: Final = 60.0
SHUTDOWN_POLL_SECONDS: Final = 0.05

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
}
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Forbidden(Exception):
    """The bridge never does this; the text is a sentence for the page."""


class WrongRequest(Exception):
    """The request is malformed or makes no sense; the text is a sentence for the page."""


Content = dict[str, Any]


@dataclass(frozen=True)
class Doors:
    """What the bridge serves: the current state, and acts.

    Both may raise `ExpectedError`, whose sentence the page shows; acts also `Forbidden` and
    `WrongRequest`.
    """

    state: Callable[[], Content]
    act: Callable[[Content], Content]


@dataclass(frozen=True)
class Bridge:
    port: int
    key: str = field(repr=False)

    @property
    def origin(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def address(self) -> str:
        """The URL to open. Browsers do not send the part after #."""
        return f"{self.origin}/#key={self.key}"


@contextmanager
def serving(doors: Doors, *, port: int = 0) -> Iterator[Bridge]:
    """Serve the page until the block ends; raises `ExpectedError` if the port is taken."""
    key = secrets.token_urlsafe(KEY_BYTES)
    values = {"doors": doors, "key": key, "files": _files()}
    handler = type("Handler", (_Handler,), values)
    server = _bound(port, handler)
    bridge = Bridge(server.server_port, key)
    handler.origin = bridge.origin  # type: ignore[attr-defined]
    thread = threading.Thread(
        target=server.serve_forever, args=(SHUTDOWN_POLL_SECONDS,), name="bridge", daemon=True
    )
    thread.start()
    try:
        yield bridge
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def check_port(port: int) -> None:
    """Raise `ExpectedError` if the port is taken: called before work that takes minutes."""
    _bound(port, _Handler).server_close()


def _bound(port: int, handler: type[_Handler]) -> _Server:
    try:
        return _Server((LOOPBACK, port), handler)
    except OSError as error:
        raise ExpectedError(
            f"Port {port} of {LOOPBACK} is not available ({error.strerror}): choose another with "
            "--port, or leave it out."
        ) from error


def _files() -> dict[str, tuple[str, bytes]]:
    """The page's files by path, read once: no request opens a file."""
    found = {}
    for file in (resources.files("fanfold_cli.console") / "page").iterdir():
        kind = TYPES.get(file.name.rpartition(".")[2])
        if kind:
            found[f"/{file.name}"] = kind, file.read_bytes()
    return {**found, "/": found["/index.html"]}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: closing the page breaks its connections."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = SILENT_SECONDS
    server_version, sys_version = "fanfold", ""
    doors: ClassVar[Doors]
    key: ClassVar[str]
    origin: ClassVar[str]
    files: ClassVar[dict[str, tuple[str, bytes]]]

    def do_GET(self) -> None:
        """Serve a file of the page to anybody on this machine, and the state to the page."""
        if not self._is_from_here():
            return
        if self.path in self.files:
            self._send(HTTPStatus.OK, *self.files[self.path])
        elif self.path == "/state":
            if self._has_key():
                self._answer(self.doors.state)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "There is nothing here.")

    def do_POST(self) -> None:
        """Act for the page."""
        if not self._is_from_here() or not self._has_key():
            return
        if self.path != "/act":
            self._refuse(HTTPStatus.NOT_FOUND, "There is nothing here.")
            return
        content = self._body()
        if content is not None:
            self._answer(lambda: self.doors.act(content))

    def _is_from_here(self) -> bool:
        """Whether the request names this host, and comes from no page of another site."""
        host, origin = self.headers.get_all("host") or [], self.headers.get_all("origin") or []
        if host != [self.origin.removeprefix("http://")]:
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "This is not the address of the bridge.")
        elif origin not in ([], [self.origin]):
            self._refuse(HTTPStatus.FORBIDDEN, "Only the bridge's own page may call it.")
        else:
            return True
        return False

    def _has_key(self) -> bool:
        shown = self.headers.get(KEY_HEADER, "").encode()
        if hmac.compare_digest(shown, self.key.encode()):
            return True
        self._refuse(HTTPStatus.UNAUTHORIZED, "The key of the address is missing or wrong.")
        return False

    def _body(self) -> Content | None:
        """The JSON object of a request, or None if it was refused."""
        length = self.headers.get("content-length", "")
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "An act must be JSON.")
        elif not (length.isascii() and length.isdigit()):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "Content-Length is missing.")
        elif len(length) > MAX_DIGITS or int(length) > MAX_BODY:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "The body is too long.")
        else:
            try:
                content = json.loads(self.rfile.read(int(length)))
            except (ValueError, RecursionError):
                content = None
            if isinstance(content, dict):
                return content
            self._refuse(HTTPStatus.BAD_REQUEST, "An act must be a JSON object.")
        return None

    def _answer(self, make: Callable[[], Content]) -> None:
        try:
            content = make()
        except Forbidden as error:
            self._refuse(HTTPStatus.FORBIDDEN, str(error))
        except WrongRequest as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
        except ExpectedError as error:
            self._refuse(HTTPStatus.CONFLICT, str(error))
        else:
            self._send(HTTPStatus.OK, "application/json", json.dumps(content).encode())

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        # An unread body must not be parsed as the next request.
        self.close_connection = True
        self._send(status, "application/json", json.dumps({"error": sentence}).encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse malformed requests with our own text and headers."""
        self._refuse(HTTPStatus(code), "The bridge does not know that.")

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent: the page is the output."""
