"""Servers on loopback for the wire client, over HTTP and over TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.wire.server import LOOPBACK, OK, Answering, Server, serving

REGION = "eu-central-1"


@dataclass(frozen=True)
class Certificates:
    """A server's side of TLS, and the file of who vouches for it."""

    context: ssl.SSLContext
    authority: str


def certificates(folder: Path, *names: str) -> Certificates:
    """A certificate for these names by an authority of its own."""
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    file = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(file))
    return Certificates(context, str(file))


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A certificate of this machine's."""
    return certificates(tmp_path_factory.mktemp("tls"), LOOPBACK)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libcurl obeys the proxy of whoever runs the tests."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    """Makes servers, which end with the test."""
    with ExitStack() as ends:

        def make(answer: Answering = lambda _call: OK, **more: Any) -> Server:
            return ends.enter_context(serving(answer, **more))

        yield make


@pytest.fixture
def server(serve: Callable[..., Server]) -> Server:
    """One without TLS, which answers everything with an empty object."""
    return serve()


def environment(url: str, **more: str) -> dict[str, str]:
    """What a Lambda function is told, but for a session's token."""
    return {
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL": url,
        **more,
    }
