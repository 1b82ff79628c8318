"""Servers on loopback for libcurl's client, over HTTP and TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from fanfold.aws.connections import DYNAMODB, Connections
from tests.wire.server import LOOPBACK, OK, Answering, Server, serving

REGION = "eu-central-1"


@dataclass(frozen=True)
class Certificates:
    """The TLS context of a server, and the file with its certificate authority."""

    context: ssl.SSLContext
    authority: str


def certificates(folder: Path, *names: str) -> Certificates:
    """A certificate for these names, by a new authority."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return Certificates(context, str(file))


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A certificate for loopback."""
    return certificates(tmp_path_factory.mktemp("tls"), LOOPBACK)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the proxy of this machine's environment, which boto3 would use."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Starts servers that stop at the end of the test."""
    with ExitStack() as ends:

        def make(answer: Answering = lambda _call: OK, **more: Any) -> Server:
            return ends.enter_context(serving(answer, **more))

        yield make


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    """A server without TLS that answers `{}` to every call."""
    return serve()


def environment(url: str, **more: str) -> dict[str, str]:
    """The environment of a Lambda function, without a session token."""
    return {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": url,
        **more,
    }


def connections_to(server: Server, **more: str) -> Connections:
    """Connections to DynamoDB on this server."""
    return Connections(DYNAMODB, environment(server.url, **more))
