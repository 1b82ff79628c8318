"""Whom the local engine serves: no page, no other user, nobody by a foreign name."""

from collections.abc import Mapping

import pytest

from fanfold_cli.local.guard import refusal

KEY = "the key"
API = "/_aws/execute-api/abc123/v1/timeline"


def signed(key: str) -> dict[str, str]:
    scope = f"{key}/20261124/us-east-1/lambda/aws4_request"
    return {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=0"
    }


def why_not(path: str, headers: Mapping[str, str], kind: str = "http") -> str | None:
    sent = {"Host": "127.0.0.1:4566", **headers}
    raw = [(name.encode(), value.encode()) for name, value in sent.items() if value]
    return refusal(
        {"type": kind, "path": path, "headers": raw}, {KEY, "that of a role"}.__contains__
    )


@pytest.mark.parametrize("host", ["127.0.0.1:4566", "localhost:4566", "LOCALHOST", "[::1]:4566"])
def test_those_who_know_the_key_are_served_by_every_name_of_this_machine(host: str) -> None:
    for key in (KEY, "that of a role"):
        assert why_not("/2015-03-31/functions", {"Host": host, **signed(key)}) is None
    assert why_not(API, signed(KEY), kind="websocket") is not None


@pytest.mark.parametrize("headers", [{}, signed("test"), signed(""), {"Authorization": KEY}])
def test_callers_without_the_key_are_refused(headers: Mapping[str, str]) -> None:
    for path in ("/", "/2015-03-31/functions", "/_ministack/reset", "/pool/.well-known/jwks.json"):
        assert "requires its key" in (why_not(path, headers) or "")


@pytest.mark.parametrize(
    "headers", [{"Origin": "null"}, {"origin": "http://localhost:5173"}, {"Sec-Fetch-Site": "none"}]
)
def test_a_page_reaches_the_http_api_alone_even_with_the_key(headers: Mapping[str, str]) -> None:
    assert why_not(API, headers) is None
    assert "Pages may call" in (why_not("/", {**headers, **signed(KEY)}) or "")


def test_a_foreign_name_reaches_nothing() -> None:
    nearly = ("127.0.0.1.evil.example:4566", "abc.execute-api.localhost", "localhost.")
    for host in ("", "evil.example", "[::2]", *nearly):
        for path in ("/", API):
            said = why_not(path, {"Host": host, **signed(KEY)}) or ""
            assert "only at 127.0.0.1 and localhost" in said


@pytest.mark.parametrize(
    "path",
    [
        "/_aws/execute-api/",
        "/_aws/execute-api/abc123",
        "/_aws/execute-api//v1/timeline",
        "/_aws/execute-api/../2015-03-31/functions",
        "/x/_aws/execute-api/abc123/v1/timeline",
        "//_aws/execute-api/abc123/v1/timeline",
        "/_aws/lambda-url/abc123/",
    ],
)
def test_only_the_path_of_an_http_api_is_open(path: str) -> None:
    assert why_not(path, {"Origin": "http://localhost:5173"}) is not None
    assert why_not(path, {}) is not None


@pytest.mark.parametrize(
    ("path", "more"),
    [
        ("/", [(b"x", b"\xff\xfe"), (b"authorization", b"\xff")]),
        (API, [(b"host", b"evil.example")]),
    ],
    ids=["no text", "two hosts"],
)
def test_no_header_is_taken_for_another(path: str, more: list[tuple[bytes, bytes]]) -> None:
    raw = [(b"host", b"127.0.0.1"), *more]
    assert refusal({"type": "http", "path": path, "headers": raw}, {KEY}.__contains__) is not None
