"""What copies of one publish write that come at the same time, through the HTTP door."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import contract, names
from fanfold.ids import ref_id_for
from proof.model.lambda_events import Context
from proof.simulation.timed.model import warm
from proof.simulation.timed.system import PUBLISHER, System
from proof.simulation.timed.tables import follow
from proof.simulation.world.function_modules import imported_anew
from proof.simulation.world.lambdas import settings
from tests.service import request_of

CAPACITY, FOLLOWERS, COPIES = 4_000, 1_000, 20
KEY = "one-key"
POST = ref_id_for(PUBLISHER, KEY)
REST_SECONDS = 30.0


@pytest.fixture
def api() -> Iterator[ModuleType]:
    """The function behind the HTTP API."""
    env = {**settings().to_env(), "POWERTOOLS_SERVICE_NAME": "api", "AWS_REGION": "eu-central-1"}
    with patch.dict(os.environ, env), imported_anew():
        yield importlib.import_module("functions.api")


def request(system: System) -> dict[str, Any]:
    now, headers = system.scheduler.clock.now_ms(), {"idempotency-key": KEY}
    return request_of(contract.PUBLISH_POST, PUBLISHER, at_ms=now, headers=headers, body="{}")


@pytest.mark.parametrize("apart_seconds", [0.0, 0.01, 0.3])
def test_copies_of_one_publish_write_each_entry_once(
    api: ModuleType, monkeypatch: pytest.MonkeyPatch, apart_seconds: float
) -> None:
    """Of twenty that are under way at once: "entries x 1.00"."""
    system = System(CAPACITY, warm(CAPACITY))
    follow(system.database, PUBLISHER, FOLLOWERS)
    monkeypatch.setattr(api, "publishing", system.publishing)
    monkeypatch.setattr(api, "publish_queue", system.lanes[names.PUBLISH])
    answers: list[Any] = []

    def publish() -> None:
        answers.append(api.handler(request(system), Context()))

    with system.virtual_time():
        for number in range(COPIES):
            system.scheduler.at(number * apart_seconds, partial(system.scheduler.start, publish))
        system.scheduler.run_to(REST_SECONDS)
    assert [each["statusCode"] for each in answers] == [202] * COPIES
    assert len({each["body"] for each in answers}) == 1
    assert system.is_complete(POST)
    written = system.written(POST)
    assert (len(written.users), written.puts) == (FOLLOWERS, FOLLOWERS)
