"""The service on an engine: fresh tables and queues for each test, and a clock that stands still.

The model's unless it is said otherwise. With `--engine moto`, boto3 and moto; with `--engine
dynamodb-local`, boto3, DynamoDB Local has the tables, and moto the queues alone.
"""

from __future__ import annotations

import importlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest

from fanfold import names
from fanfold.aws import boto
from fanfold.channels.head import Head
from fanfold.history import doors
from fanfold.history.doors import History
from tests import model, service
from tests.compat import engines
from tests.integration.on_moto import on_moto
from tests.service import Clock, FailFirst, System, settings

PATIENCE_SECONDS = 60
DOORS = ("api", "timeline", "plan", "deliver", "relate", "sweep")

_ends = ExitStack()
_missing: list[str] = []  # why the engine cannot be had


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the chosen engine before any test module makes a client.

    On import, once in a process, the functions read their settings and make their clients. All
    tests use the same names.
    """
    engine = config.getoption("engine")
    os.environ["TRANSPORT"] = names.LIBCURL if engine == engines.MODEL else names.BOTO3
    os.environ.update(settings().to_env())
    if engine == engines.MODEL:
        with model.own_clients():
            for name in DOORS:
                importlib.import_module(f"functions.{name}")
    is_controller = getattr(config.option, "numprocesses", None) and not hasattr(
        config, "workerinput"
    )
    if engine != engines.DYNAMODB_LOCAL or is_controller:
        return
    folder = Path(_ends.enter_context(TemporaryDirectory()))
    try:
        local = _ends.enter_context(engines.dynamodb_local(folder))
    except pytest.skip.Exception as reason:
        _missing.append(str(reason))
        return
    os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = local.url
    # On a busy machine, it may answer later than the product would wait.
    _ends.enter_context(patch.object(boto, "READ_TIMEOUT_SECONDS", PATIENCE_SECONDS))


def pytest_unconfigure() -> None:
    """Stop the engine."""
    _ends.close()


@pytest.fixture(autouse=True)
def engine(request: pytest.FixtureRequest) -> str:
    """The engine of this test; skips a test that DynamoDB Local cannot run."""
    chosen: str = request.config.getoption("engine")
    needs_moto = request.node.get_closest_marker("moto")
    if _missing:
        pytest.skip(_missing[0])
    if needs_moto and chosen == engines.DYNAMODB_LOCAL:
        pytest.skip(needs_moto.args[0])
    return engines.MOTO if needs_moto else chosen


@pytest.fixture
def clock(engine: str, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of the product and of SQS, which only `sleep` and `advance` change.

    By `monkeypatch`, which puts back what a test replaces again in the right order.
    """
    now = Clock()
    # It also follows real time: a wait for an answer would never time out otherwise.
    service.keep_time(monkeypatch, now, lambda: time.monotonic() + now.seconds)
    if engine != engines.MODEL:
        monkeypatch.setattr("moto.sqs.models.unix_time_millis", now.now_ms)
        monkeypatch.setattr("moto.sqs.models.unix_time", lambda: now.now)
    return now


@pytest.fixture
def channel_threshold() -> int:
    """From how many followers on a publisher gets a channel: 0, so that there are no channels.

    A module about channels has a fixture of this name, and thereby functions of its own.
    """
    return 0


@pytest.fixture
def system(clock: Clock, engine: str, channel_threshold: int) -> Iterator[System]:
    """The service with empty tables, queues and caches."""
    transport = names.LIBCURL if engine == engines.MODEL else names.BOTO3
    chosen = settings(channel_threshold=channel_threshold, transport=transport)
    with ExitStack() as ends:
        if chosen != settings():
            ends.enter_context(service.own_functions(chosen))
        if engine == engines.MODEL:
            found = System(clock, chosen, ends.enter_context(service.on_model(clock)))
        else:
            found = ends.enter_context(on_moto(clock, chosen))
        found.forget()
        if not channel_threshold:  # warm: a page reads no head, as nearly all of such a stage
            head = found.door("timeline").channels.head
            head.keep(Head(), head.now())
        yield found


@pytest.fixture
def written(system: System, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The history that the functions write, which have the setting."""
    lines: list[str] = []
    monkeypatch.setattr(doors, "History", lambda settings, _: History(settings, lines.append))
    with service.own_functions(replace(system.settings, history=True)):
        yield lines


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def lost(system: System, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A fan-out of four segments, of which two are delivered and the others' messages lost."""
    monkeypatch.setattr("fanfold.fanout.plan.count_for", lambda _followers: 4)
    users = system.give_followers(40)
    system.publish()
    system.pump("Publish")
    for _ in range(2):
        assert system.pump_once("Bulk")
    system.bodies("Bulk")
    assert len(system.ledger().pending) == 2
    return users


@pytest.fixture
def through_lanes() -> Iterator[None]:
    """Also a fan-out to few followers is planned, and goes through a lane."""
    with service.through_lanes():
        yield


@pytest.fixture
def fail_first(monkeypatch: pytest.MonkeyPatch) -> FailFirst:
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
