"""The bridge of `fanfold console`: who is let in, what each route answers, and what is refused."""

import http.client
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fanfold_cli.console import server
from fanfold_cli.console.server import Bridge, Content, Doors, Forbidden, WrongRequest
from fanfold_cli.terminal import ExpectedError

pytestmark = pytest.mark.network


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> str:
        return str(json.loads(self.body)["error"])


def act(content: Content) -> Content:
    match content.get("what"):
        case "forbidden":
            raise Forbidden("This console only reads.")
        case "wrong":
            raise WrongRequest("That cannot be meant.")
        case "failed":
            raise ExpectedError("The stack does not answer.")
    return {"acted": content}


@pytest.fixture(scope="module")
def bridge() -> Iterator[Bridge]:
    with server.serving(Doors(lambda: {"open": 3}, act)) as bridge:
        yield bridge


def call(
    bridge: Bridge, method: str, path: str, content: Any = None, **headers: str | None
) -> Answer:
    """A call as the page makes it, but for these headers; None leaves one out."""
    sent: dict[str, str | None] = {
        "host": f"127.0.0.1:{bridge.port}",
        "origin": bridge.origin,
        "x-fanfold-key": bridge.key,
    }
    body = None
    if content is not None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        sent |= {"content-type": "application/json", "content-length": str(len(body))}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection("127.0.0.1", bridge.port, timeout=10)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in sent.items():
        if value is not None:
            connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    found = Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
    connection.close()
    return found


PAGE = {
    "/": "text/html",
    "/index.html": "text/html",
    "/style.css": "text/css",
    "/app.js": "text/javascript",
    "/ring.js": "text/javascript",
}


def test_the_page_is_served_without_a_key_and_holds_none(bridge: Bridge) -> None:
    for path, kind in PAGE.items():
        answer = call(bridge, "GET", path, x_fanfold_key=None, origin=None)
        assert answer.status == 200
        assert answer.headers["content-type"].startswith(kind)
        assert bridge.key.encode() not in answer.body


def test_the_page_loads_nothing_from_elsewhere_and_runs_no_inline_script(bridge: Bridge) -> None:
    page = call(bridge, "GET", "/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert not re.search(r"(src|href)=.https?:|<script>|\son\w+=", page.body.decode())


def test_the_state_is_what_the_console_says(bridge: Bridge) -> None:
    answer = call(bridge, "GET", "/state")
    assert (answer.status, json.loads(answer.body)) == (200, {"open": 3})
    assert answer.headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in answer.headers


def test_an_act_is_handed_on_and_the_page_gets_the_sentence_of_what_failed(bridge: Bridge) -> None:
    answer = call(bridge, "POST", "/act", {"what": "kill"})
    assert (answer.status, json.loads(answer.body)) == (200, {"acted": {"what": "kill"}})
    for what, status, sentence in (
        ("forbidden", 403, "This console only reads."),
        ("wrong", 400, "That cannot be meant."),
        ("failed", 409, "The stack does not answer."),
    ):
        answer = call(bridge, "POST", "/act", {"what": what})
        assert (answer.status, answer.error) == (status, sentence)


ROUTES = [("GET", "/state", None), ("POST", "/act", {"what": "kill"})]
ROUTE = pytest.mark.parametrize(("method", "path", "content"), ROUTES)
ANY_PATH = pytest.mark.parametrize(("method", "path", "content"), [*ROUTES, ("GET", "/", None)])


@ROUTE
def test_a_wrong_or_missing_key_is_refused(bridge, method, path, content) -> None:
    for key in (None, "", "x", "ü", "A" * 43):
        answer = call(bridge, method, path, content, x_fanfold_key=key)
        assert answer.status == 401
        assert "key" in answer.error


@ANY_PATH
def test_a_foreign_host_is_refused_whatever_it_knows(bridge, method, path, content) -> None:
    port = bridge.port
    hosts = ("evil.example", f"evil.example:{port}", f"localhost:{port}", "127.0.0.1", "", None)
    for host in hosts:
        answer = call(bridge, method, path, content, host=host)
        assert answer.status in (400, 421)  # HTTP/1.1 wants a Host
        assert b"open" not in answer.body


@ANY_PATH
def test_a_foreign_origin_is_refused_whatever_it_knows(bridge, method, path, content) -> None:
    local = ("http://127.0.0.1", f"http://localhost:{bridge.port}")
    for origin in ("https://evil.example", "null", "", *local):
        assert call(bridge, method, path, content, origin=origin).status == 403


def test_there_is_nothing_else(bridge: Bridge) -> None:
    up = ("/../server.py", "/%2e%2e/server.py", "//etc/passwd")
    for path in ("/nothing", "/state?x=1", "*", *up):
        assert call(bridge, "GET", path).status == 404
        assert call(bridge, "POST", path, {}).status == 404


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        *((content, {}, 400) for content in (b"{", b"[1]", b"[" * 9_000, b"\xff\xfe")),
        *((b"{}", {"content_type": kind}, 415) for kind in ("text/plain", None)),
        *((b"{}", {"content_length": size}, 411) for size in (None, "-1", b"\xd9\xa2")),
        *((b"{}", {"content_length": size}, 413) for size in ("10001", "9" * 5_000)),
    ],
)
def test_a_request_that_is_not_an_act_is_refused(bridge, content, headers, status) -> None:
    assert call(bridge, "POST", "/act", content, **headers).status == status


def test_a_malformed_request_is_refused_like_any_other(bridge: Bridge) -> None:
    for method in ("HEAD", "PUT", "OPTIONS", "<b>"):
        answer = call(bridge, method, "/state", origin="https://evil.example")
        assert answer.status == 501
        assert answer.headers["content-type"] == "application/json"
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
        assert answer.headers["connection"] == "close"
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert method == "HEAD" or answer.error == "The bridge does not know that."


def test_the_key_is_long_and_new_each_time_and_no_browser_sends_it_in_a_path(bridge) -> None:
    with server.serving(Doors(dict, act)) as other:
        assert len(other.key) >= 43
        assert other.key != bridge.key
        assert other.address.endswith(f"/#key={other.key}")
        assert other.key not in repr(other)


def test_it_listens_only_on_loopback_and_ends_with_its_command() -> None:
    with server.serving(Doors(dict, act)) as bridge:
        assert call(bridge, "GET", "/state").status == 200
        assert bridge.origin.startswith("http://127.0.0.1:")
        with (
            pytest.raises(ExpectedError, match=f"Port {bridge.port} of"),
            server.serving(Doors(dict, act), port=bridge.port),
        ):
            pass
        with pytest.raises(ExpectedError, match=f"Port {bridge.port} of"):
            server.check_port(bridge.port)
    server.check_port(bridge.port)
    with pytest.raises(OSError, match="refused"):
        call(bridge, "GET", "/state")
