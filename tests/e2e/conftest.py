"""One local engine for all end-to-end tests, with the real app deployed on it."""

from collections.abc import Iterator

import pytest

from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from tests.lifetimes import LIFETIME_HOURS


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """The home of a running engine with the app deployed; it ends with the tests."""
    home = Home(tmp_path_factory.mktemp("engine"))
    try:
        deploy.bring_up(home, lifetime_hours=LIFETIME_HOURS)
        yield home
    finally:
        deploy.take_down(home)


@pytest.fixture(scope="session")
def stack(engine: Home) -> Deployment:
    """The deployed app: its settings, clients, API address and tokens."""
    return Deployment.local(engine)
