"""`fanfold preflight` reads what API Gateway reads of an issuer, over TLS, and within a limit.

Nor does it wait for an answer of AWS for long.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from fanfold_cli.preflight import account
from fanfold_cli.preflight import issuer as preflight_issuer
from fanfold_cli.preflight.checks import Result, Status
from fanfold_cli.preflight.issuer import DISCOVERY, MAX_BYTES, check_issuer, fetch
from fanfold_client import connections
from tests.wire.conftest import REGION, Certificates
from tests.wire.server import SILENCE, Call, Reply, Server, reply

RSA = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1"}


class Issuer:
    """An issuer on loopback, sound unless a test says otherwise."""

    def __init__(self, server: Server) -> None:
        self.server, self.address = server, server.url
        self.discovery: Any = {"issuer": self.address, "jwks_uri": f"{server.url}/keys"}
        self.keys: Any = {"keys": [RSA]}
        self.replies: dict[str, Reply] = {}
        server.answer = self.answer

    def answer(self, call: Call) -> Reply:
        if call.path in self.replies:
            return self.replies[call.path]
        documents = {DISCOVERY: self.discovery, "/keys": self.keys}
        return reply(documents[call.path])

    def check(self) -> Result:
        return check_issuer(self.address, fetch)


@pytest.fixture
def issuer(
    serve: Callable[..., Server], tls: Certificates, monkeypatch: pytest.MonkeyPatch
) -> Issuer:
    monkeypatch.setenv("SSL_CERT_FILE", tls.authority)
    monkeypatch.setattr(preflight_issuer, "GATEWAY_SECONDS", 60)  # on a busy machine too
    return Issuer(serve(context=tls.context))


def test_a_sound_issuer_passes_and_a_slash_at_the_end_is_none_of_its_documents(
    issuer: Issuer,
) -> None:
    issuer.keys = {"keys": [{"kty": "EC", "use": "sig"}, {"kty": "RSA", "kid": "2"}]}
    found = issuer.check()
    assert found.status is Status.OK
    assert "1 of 2 keys" in found.sentence
    assert [call.path for call in issuer.server.calls] == [DISCOVERY, "/keys"]
    issuer.address += "/"
    issuer.discovery["issuer"] = issuer.address
    assert issuer.check().status is Status.OK


@pytest.mark.parametrize(
    ("discovery", "keys", "says"),
    [
        *(
            ({}, {"keys": keys}, "no RSA key for signatures")
            for keys in (
                [],
                None,
                [{"kty": "EC", "use": "sig", "alg": "ES256"}],
                [{**RSA, "use": "enc"}],
                [{**RSA, "alg": "PS256"}],
                [{"kty": "RSA", "use": "sig"}],
            )
        ),
        ({"issuer": "{}/"}, None, "{0}{1} says that the issuer is '{0}/', and jwt_issuer is '{0}'"),
        ({"issuer": "https://elsewhere.example"}, None, "is 'https://elsewhere.example', and"),
        ({"jwks_uri": None}, None, "names no https address"),
        ({"jwks_uri": "http://127.0.0.1/keys"}, None, "names no https address"),
    ],
    ids=str,
)
def test_an_issuer_that_cannot_be_verified_by_fails(
    issuer: Issuer, discovery: dict[str, Any], keys: Any, says: str
) -> None:
    issuer.discovery |= {n: v and v.format(issuer.address) for n, v in discovery.items()}
    issuer.keys = keys or issuer.keys
    found = issuer.check()
    assert found.status is Status.FAILS
    assert says.format(issuer.address, DISCOVERY) in found.sentence


@pytest.mark.parametrize(
    ("path", "answer", "sentence"),
    [
        ("/keys", reply({}, "404 Not Found"), "answers 404 instead of 200"),
        ("/keys", reply({}, "301 Moved", headers={"Location": "/"}), "answers 301 instead"),
        (DISCOVERY, reply(b"<html>"), "is not JSON"),
        ("/keys", reply(b"\xff\xfe"), "is not JSON"),
        ("/keys", reply(b"[]"), "is not a JSON object"),
        ("/keys", reply(b" " * (MAX_BYTES + 1)), "has more than 150,000 bytes"),
        (DISCOVERY, Reply(b"nothing of HTTP\r\n\r\n", then="close"), "cannot be read"),
        ("/keys", Reply(b"", then="reset"), "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_address(
    issuer: Issuer, path: str, answer: Reply, sentence: str
) -> None:
    issuer.replies[path] = answer
    found = issuer.check()
    assert found.status is Status.FAILS
    assert f"{issuer.server.url}{path} {sentence}" in found.sentence


@pytest.mark.parametrize("answer", [Reply(b"", then=SILENCE), reply(b"{", length=9, then=SILENCE)])
def test_an_issuer_that_says_nothing_more_is_given_up(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, answer: Reply
) -> None:
    monkeypatch.setattr(preflight_issuer, "SECONDS", 0.3)
    issuer.replies[DISCOVERY] = answer
    began = time.monotonic()
    found = issuer.check()
    assert time.monotonic() - began < 5
    assert found.status is Status.FAILS


@pytest.mark.parametrize("path", [DISCOVERY, "/keys"])
def test_an_issuer_slower_than_api_gateway_waits_is_a_warning(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(preflight_issuer, "GATEWAY_SECONDS", 0.2)
    answer = issuer.answer

    def late(call: Call) -> Reply:
        if call.path == path:
            time.sleep(0.3)
        return answer(call)

    issuer.server.answer = late
    found = issuer.check()
    assert found.status is Status.WARNING
    assert f"{issuer.server.url}{path} took " in found.sentence


def test_only_the_certificates_that_boto3_uses_are_vouched_for(
    issuer: Issuer, tls: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    found = issuer.check()
    assert (found.status, "CERTIFICATE_VERIFY_FAILED" in found.sentence) == (Status.FAILS, True)
    monkeypatch.setenv("AWS_CA_BUNDLE", tls.authority)
    assert issuer.check().status is Status.OK


def test_the_proxy_of_the_environment_is_used_unless_the_host_is_excepted(
    serve: Callable[..., Server], issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No proxy is asked for what is on this machine, as this issuer is.
    monkeypatch.setattr(connections, "LOOPBACK", ())
    proxy = serve(lambda call: reply({}, "403 Forbidden"))
    monkeypatch.setenv("https_proxy", proxy.url.replace("://", "://user:word@"))
    monkeypatch.setenv("no_proxy", "example.com")
    found = issuer.check()
    assert (found.status, [call.method for call in proxy.calls]) == (Status.FAILS, ["CONNECT"])
    assert proxy.calls[0].header("proxy-authorization") == "Basic dXNlcjp3b3Jk"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert issuer.check().status is Status.OK


def test_an_endpoint_of_aws_that_says_nothing_is_given_up(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert account.ATTEMPTS * account.READ_SECONDS <= 30, "as docs/operations.md says"
    silent = serve(lambda _call: Reply(b"", then=SILENCE))
    monkeypatch.setenv("AWS_ENDPOINT_URL", silent.url)
    monkeypatch.setattr(account, "READ_SECONDS", 0.2)
    with pytest.raises(ReadTimeoutError):
        account.Account(REGION).number()
    assert len(silent.calls) == account.ATTEMPTS
