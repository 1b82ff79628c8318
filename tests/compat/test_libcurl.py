"""The stores get the same answers from an engine through libcurl's client as through boto3."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fanfold.aws.answers import encode
from fanfold.aws.connections import DYNAMODB, Connections
from fanfold.aws.curl import Client
from fanfold_cli.aws import LocalEndpoint
from tests.compat import engines
from tests.compat.stores import SCRIPTS
from tests.compat.test_agreement import Case, record
from tests.wire.conftest import environment

pytestmark = pytest.mark.network
CASES = [Case.of(each) for each in SCRIPTS]


@contextmanager
def through_libcurl(engine: LocalEndpoint, case: Case) -> Iterator[Any]:
    with engines.on_endpoint(engine, case.tables):
        env = environment(engine.url, AWS_ACCESS_KEY_ID=engine.access_key)
        yield Client(Connections(DYNAMODB, env), attempts=1)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_store_gets_the_same_answers_through_both_libraries(
    case: Case, ministack: LocalEndpoint
) -> None:
    theirs = record(case, engines.on_endpoint(ministack, case.tables))
    ours = record(case, through_libcurl(ministack, case))
    assert ours.calls == theirs.calls
    assert spelled(ours.answers) == spelled(theirs.answers)


def spelled(answers: list[Any]) -> Any:
    """Answers as JSON has them: boto3 reads binary values, and libcurl's client leaves them."""
    return json.loads(encode({"answers": answers}), object_hook=_sorted)


def _sorted(value: dict[str, Any]) -> dict[str, Any]:
    return {"BS": sorted(value["BS"])} if value.keys() == {"BS"} else value
