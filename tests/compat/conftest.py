"""Engines for the agreement tests, each started once, for the first test that needs it."""

from collections.abc import Iterator

import pytest

from fanfold_cli.aws import LocalEndpoint
from tests.compat import engines


@pytest.fixture(scope="session")
def ministack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEndpoint]:
    """The endpoint of a bare local engine."""
    with engines.ministack(tmp_path_factory.mktemp("ministack")) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def dynamodb_local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEndpoint]:
    """The endpoint of DynamoDB Local, AWS's own."""
    with engines.dynamodb_local(tmp_path_factory.mktemp("dynamodb-local")) as endpoint:
        yield endpoint
