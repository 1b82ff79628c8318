"""One local engine for all end-to-end tests, with the real app deployed on it."""

from collections.abc import Iterator

import pytest

from fanfold_cli import cdk, deploying
from fanfold_cli.console import ExpectedError
from fanfold_cli.home import CHECKOUT, Home
from fanfold_cli.stack import Deployment

# The engine ends by itself even when the tests are killed.
LIFETIME_HOURS = 1.0


@pytest.fixture(scope="session")
def node() -> None:
    """Skip where the CDK command line is not installed."""
    try:
        cdk.find_executable(CHECKOUT)
    except ExpectedError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def engine(node: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """The home of a running engine with the app deployed; it ends with the tests."""
    home = Home(tmp_path_factory.mktemp("engine"))
    try:
        deploying.bring_up(home, lifetime_hours=LIFETIME_HOURS)
        yield home
    finally:
        deploying.take_down(home)


@pytest.fixture(scope="session")
def stack(engine: Home) -> Deployment:
    """The deployed app: its settings, clients, API address and tokens."""
    return Deployment.local(engine)
