"""`fanfold preflight` waits for no answer of AWS for long."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from botocore.exceptions import ReadTimeoutError

from fanfold_cli.preflight import account
from fanfold_cli.preflight.account import ATTEMPTS, READ_SECONDS, Account
from tests.wire.conftest import REGION
from tests.wire.server import SILENCE, Reply, Server


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
