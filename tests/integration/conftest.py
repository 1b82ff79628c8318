"""The service on moto: fresh tables and queues for each test, and a clock that stands still."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
from moto import mock_aws

from fanfold import clock as product_clock
from fanfold.timeline.read import Hydration
from functions import _wiring
from tests.integration import system as world
from tests.integration.dynamodb_rules import check_expressions
from tests.integration.system import Clock, System

# The entry points read their settings and build their clients when they are imported, once in a
# process. moto answers such clients too, and the names are the same for each test.
os.environ.update(world.settings().to_env())


@pytest.fixture
def clock() -> Iterator[Clock]:
    """The time of the product and of SQS: it stands still but for sleeping and `advance`."""
    now = Clock()
    with (
        patch.object(product_clock, "now_ms", lambda: now.ms),
        # Waiting for an answer takes real time, so this clock goes on as well.
        patch.object(product_clock, "monotonic", lambda: time.monotonic() + now.seconds),
        patch.object(product_clock, "sleep", now.advance),
        patch("moto.sqs.models.unix_time_millis", lambda: now.ms),
        patch("moto.sqs.models.unix_time", lambda: now.ms / 1000),
    ):
        yield now


@pytest.fixture
def system(clock: Clock) -> Iterator[System]:
    """The service with empty tables and queues."""
    with mock_aws():
        service = System(clock, world.settings())
        world.create_tables_and_queues(service)
        for client in (service.dynamodb, service.unretried, service.edge_client):
            client.meta.events.register(
                "provide-client-params.dynamodb", check_expressions, unique_id="rules"
            )
        with ExitStack() as cold:  # empty caches, with this clock
            timeline = service.door("timeline")
            hydration = Hydration(timeline.reading.hydration.posts)
            reading = replace(timeline.reading, hydration=hydration)
            cold.enter_context(patch.object(timeline, "reading", reading))
            for name in ("api", "plan", "relate"):
                door = service.door(name)
                following = replace(door.following, edges=_wiring.edges(door.settings))
                cold.enter_context(patch.object(door, "following", following))
            # moto's transactions undo what others do meanwhile.
            cold.enter_context(patch.object(service.door("plan"), "MESSAGES", None))
            yield service


@pytest.fixture
def fail_first(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[Any, str, Sequence[Exception]], list[Any]]:
    """Let a client's first calls of an operation fail; the calls made are noted in the answer."""

    def spoil(client: Any, operation: str, errors: Sequence[Exception]) -> list[Any]:
        plain, left, calls = getattr(client, operation), list(errors), []

        def call(**request: Any) -> Any:
            calls.append(request)
            if left:
                raise left.pop(0)
            return plain(**request)

        monkeypatch.setattr(client, operation, call)
        return calls

    return spoil
