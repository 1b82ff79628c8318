"""Stores get the same answers and errors over the wire as in process, for valid requests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import boto3
import pytest
from botocore.config import Config

from aws_model.endpoint import Backend, answering_from, serving
from fanfold import names
from fanfold.aws.answers import encode, refusal
from fanfold.aws.connections import DYNAMODB, Connections
from fanfold.aws.curl import Client
from fanfold.aws.retries import is_transient
from fanfold.fanout.ledger import Ledger
from fanfold.names import LIBCURL, TRANSPORTS
from tests.compat import engines
from tests.compat.programs import PROGRAMS
from tests.compat.stores import SCRIPTS, STORED
from tests.compat.test_agreement import Case, record
from tests.wire.conftest import REGION, environment
from tests.wire.judge import judged

pytestmark = pytest.mark.network
Way = Callable[[Backend], AbstractContextManager[Backend]]
ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1}, proxies={})


class WholeClient(Client):
    """The client with operations that only tests and commands call."""

    def __getattr__(self, name: str) -> Callable[..., dict[str, Any]]:
        operation = "".join(part.capitalize() for part in name.split("_"))
        return lambda **request: self.together((operation, request))[0]


@contextmanager
def over_http(transport: str, *, way: Way = judged) -> Iterator[Any]:
    """A client of the model over HTTP, through one of the libraries."""
    with (
        engines.on_model() as model,
        way(answering_from(model)) as backend,
        serving(backend) as url,
    ):
        if transport == LIBCURL:
            yield WholeClient(Connections(DYNAMODB, environment(url)), attempts=1)
        else:
            client = boto3.client("dynamodb", endpoint_url=url, config=ONCE, region_name=REGION)
            yield client
            client.close()


STORES = [Case.of(each) for each in SCRIPTS]
EVERY = [Case.of(each) for each in PROGRAMS]


@pytest.mark.parametrize("case", STORES, ids=lambda case: case.name)
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_store_gets_the_same_answers_over_http_as_in_process(transport: str, case: Case) -> None:
    assert_same(case, over_http(transport))


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_libcurls_client_gets_the_same_answers_as_in_process(case: Case) -> None:
    """Also to requests that AWS would refuse."""
    assert_same(case, over_http(LIBCURL, way=nullcontext))


def assert_same(case: Case, engine: AbstractContextManager[Any]) -> None:
    over, within = record(case, engine), record(case, engines.on_model())
    assert over.calls == within.calls
    assert spelled(over.answers) == spelled(within.answers)


def spelled(answers: list[Any]) -> Any:
    """Answers as JSON has them: boto3 reads binary values, and libcurl's client leaves them."""
    return json.loads(encode({"answers": answers}), object_hook=_with_sorted_sets)


def _with_sorted_sets(value: dict[str, Any]) -> dict[str, Any]:
    """A set has no order, and the transcripts sort it by its spelling."""
    return {"BS": sorted(value["BS"])} if value.keys() == {"BS"} else value


def test_stores_recognize_errors_of_libcurls_client() -> None:
    with over_http(LIBCURL) as client:
        fanouts = Ledger(client, names.FANOUTS.name)
        assert fanouts.open(STORED) is None
        assert fanouts.open(STORED), "a condition that fails is caught by the store"
        with pytest.raises(refusal("ResourceNotFoundException")) as caught:
            Ledger(client, "Nowhere").get("post-1")
        assert not is_transient(caught.value)
