"""The service on moto: fresh tables and queues for each test, and a clock that stands still.

With `--engine dynamodb-local`, DynamoDB Local has the tables, and moto the queues alone.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from moto import mock_aws

from fanfold import clock as product_clock
from fanfold.aws import boto
from fanfold.channels.head import Head
from fanfold.timeline.read import Hydration
from functions import _wiring
from simulation.function_modules import imported_anew
from tests.compat import engines
from tests.integration import system as service_in_one_process
from tests.integration.dynamodb_rules import check_expressions
from tests.integration.system import Clock, System, create_queues, create_tables, settings

PATIENCE_SECONDS = 60

# On import, once in a process, the functions read their settings and make their clients.
# moto answers these clients too, and all tests use the same names.
os.environ.update(settings().to_env())

_ends = ExitStack()
_missing: list[str] = []  # why the engine cannot be had


def pytest_configure(config: pytest.Config) -> None:
    """Start the chosen engine before any test module makes a client, which finds it by its name."""
    is_controller = getattr(config.option, "numprocesses", None) and not hasattr(
        config, "workerinput"
    )
    if config.getoption("engine") == engines.MOTO or is_controller:
        return
    folder = Path(_ends.enter_context(TemporaryDirectory()))
    try:
        engine = _ends.enter_context(engines.dynamodb_local(folder))
    except pytest.skip.Exception as reason:
        _missing.append(str(reason))
        return
    os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = engine.url
    # On a busy machine, it may answer later than the product would wait.
    _ends.enter_context(patch.object(boto, "READ_TIMEOUT_SECONDS", PATIENCE_SECONDS))


def pytest_unconfigure() -> None:
    """Stop the engine."""
    _ends.close()


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest) -> str:
    """The chosen engine; skips a test that it cannot run."""
    chosen: str = request.config.getoption("engine")
    marker = request.node.get_closest_marker("moto")
    if chosen != engines.MOTO and (_missing or marker):
        pytest.skip(_missing[0] if _missing else marker.args[0])
    return chosen


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The time of the product and of SQS, which only `sleep` and `advance` change."""
    now = Clock()
    with (
        patch.object(product_clock, "now_ms", lambda: now.ms),
        # It also follows real time: a wait for an answer would never time out otherwise.
        patch.object(product_clock, "monotonic", lambda: time.monotonic() + now.seconds),
        patch.object(product_clock, "sleep", now.advance),
        patch("moto.sqs.models.unix_time_millis", lambda: now.ms),
        patch("moto.sqs.models.unix_time", lambda: now.ms / 1000),
    ):
        yield now


@pytest.fixture
def channel_threshold() -> int:
    """From how many followers on a publisher gets a channel: 0, so that there are no channels.

    A module about channels has a fixture of this name, and thereby functions of its own.
    """
    return 0


@pytest.fixture
def system(clock: Clock, engine: str, channel_threshold: int) -> Iterator[System]:
    """The service with empty tables and queues."""
    with ExitStack() as ends:
        chosen = settings(channel_threshold=channel_threshold)
        if channel_threshold:
            ends.enter_context(patch.dict(os.environ, chosen.to_env()))
            ends.enter_context(imported_anew())
        # With the credentials of tests/conftest.py, as everywhere.
        ends.enter_context(mock_aws(config={"core": {"mock_credentials": False}}))
        service = System(clock, chosen)
        if engine != engines.MOTO:
            for name in service.dynamodb.list_tables()["TableNames"]:
                service.dynamodb.delete_table(TableName=name)
        create_tables(service.dynamodb)
        create_queues(service.sqs)
        for client in (service.dynamodb, service.unretried, service.edge_client):
            url = os.environ.get("AWS_ENDPOINT_URL_DYNAMODB")
            assert engine == engines.MOTO or client.meta.endpoint_url == url
            client.meta.events.register(
                "provide-client-params.dynamodb", check_expressions, unique_id="rules"
            )
        with ExitStack() as cold:  # with empty caches, which use this clock
            timeline = service.door("timeline")
            hydration = Hydration(timeline.reading.hydration.posts)
            reading = replace(timeline.reading, hydration=hydration)
            feeds = replace(timeline.feeds(), hydration=hydration)
            cold.enter_context(patch.object(timeline, "reading", reading))
            cold.enter_context(patch.object(timeline, "feeds", lambda: feeds))
            for name in ("api", "plan", "relate"):
                door = service.door(name)
                following = replace(door.following, edges=_wiring.edges(door.settings))
                cold.enter_context(patch.object(door, "following", following))
                door.heads.forget()
            timeline.channels.forget()
            if not channel_threshold:  # warm: a page reads no head, as nearly all of such a stage
                head = timeline.channels.head
                head.learn(Head(), head.now())
            service.door("api").followers.forget()
            service.door("relate").backfilling.forget()
            # One message at a time: a transaction on moto rolls back concurrent writes.
            cold.enter_context(patch.object(service.door("plan"), "MESSAGES", None))
            yield service


@pytest.fixture
def through_lanes() -> Iterator[None]:
    """Also a fan-out to few followers is planned, and goes through a lane."""
    with service_in_one_process.through_lanes():
        yield


@pytest.fixture
def fail_first(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Any, str, Sequence[Exception]], list[Any]]:
    """Make the first calls of a client's operation fail; return the list of all its calls."""

    def fail(client: Any, operation: str, errors: Sequence[Exception]) -> list[Any]:
        plain, left, calls = getattr(client, operation), list(errors), []

        def call(**request: Any) -> Any:
            calls.append(request)
            if left:
                raise left.pop(0)
            return plain(**request)

        monkeypatch.setattr(client, operation, call)
        return calls

    return fail
