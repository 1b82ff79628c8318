"""`fanfold preflight` waits for no answer of AWS for long."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError

from fanfold_cli.preflight import account
from fanfold_cli.preflight.account import ATTEMPTS, READ_SECONDS, Account
from tests.wire.conftest import REGION
from tests.wire.server import SILENCE, Reply, Server


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def test_an_endpoint_that_says_nothing_is_given_up(
    serve: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = serve(lambda _call: Reply(b"", then=SILENCE))
    monkeypatch.setenv("AWS_ENDPOINT_URL", silent.url)
    monkeypatch.setattr(account, "READ_SECONDS", 0.2)
    began = time.monotonic()
    with pytest.raises(ReadTimeoutError):
        Account(REGION).number()
    assert time.monotonic() - began < 10
    assert len(silent.calls) == ATTEMPTS
    assert ATTEMPTS * READ_SECONDS <= 30, "as docs/operations.md says"


def test_an_endpoint_that_does_not_listen_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    with pytest.raises(EndpointConnectionError):
        Account(REGION).number()
