"""Stores get the same answers and errors through libcurl's client as in process.

Whatever they send is what botocore's models allow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fanfold.aws import retries
from fanfold.aws.connections import DYNAMODB, Connections
from fanfold.aws.curl import Client
from fanfold.aws.json_protocol import encode
from proof.model.endpoint import answering_from, serving
from tests.compat import engines
from tests.compat.test_agreement import OF_STORES, record
from tests.wire.conftest import environment
from tests.wire.judge import judged


class WholeClient(Client):
    """The client with operations that only tests and commands call."""

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = "".join(part.capitalize() for part in name.split("_"))
        return lambda **request: self.together((operation, request))[0]


@contextmanager
def over_http() -> Iterator[Any]:
    with (
        engines.on_model() as model,
        judged(answering_from(model)) as backend,
        serving(backend) as url,
    ):
        yield WholeClient(Connections(DYNAMODB, environment(url)), attempts=1)


@pytest.mark.network
def test_every_store_gets_the_same_answers_and_errors_over_http_as_in_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One attempt, whose answer a busy machine may give late.
    monkeypatch.setattr(retries, "READ_TIMEOUT_SECONDS", 60)
    for case in OF_STORES:
        over, within = record(case, over_http()), record(case, engines.on_model())
        assert over.calls == within.calls, case.name
        assert spelled(over.answers) == spelled(within.answers), case.name


def spelled(answers: list[Any]) -> Any:
    """Answers as JSON has them: libcurl's client leaves binary values as they are."""
    return json.loads(encode({"answers": answers}), object_hook=_with_sorted_sets)


def _with_sorted_sets(value: dict[str, Any]) -> dict[str, Any]:
    """A set has no order, and the transcripts sort it by its spelling."""
    return {"BS": sorted(value["BS"])} if value.keys() == {"BS"} else value
