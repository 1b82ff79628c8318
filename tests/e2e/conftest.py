"""One local engine for all end-to-end tests, with the real app deployed on it."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from tests import typescript
from tests.e2e.clients import User
from tests.e2e.logs import assert_no_secrets
from tests.lifetimes import LIFETIME_HOURS

# Above every audience of these tests but one, whose publisher gets a channel by it. Engines of
# other modules have stages without channels.
CHANNEL_THRESHOLD = 4_000


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """The home of a running engine with the app deployed; the engine ends with the tests.

    Before it ends, no log of its functions may hold a secret, whatever the tests have done.
    """
    home = Home(tmp_path_factory.mktemp("engine"))
    try:
        given = {"channel_threshold": str(CHANNEL_THRESHOLD)}
        deploy.bring_up(home, lifetime_hours=LIFETIME_HOURS, given=given)
        yield home
        assert_no_secrets(Deployment.local(home))
    finally:
        deploy.take_down(home)


@pytest.fixture(scope="session")
def stack(engine: Home) -> Deployment:
    return Deployment.local(engine)


@pytest.fixture(scope="session")
def typescript_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The TypeScript client, built."""
    copy = typescript.copied(tmp_path_factory.mktemp("client"))
    typescript.run("npm", "run", "build", cwd=copy)
    return copy


@pytest.fixture(scope="session")
def browser_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the bundled browser is unpacked, once; in `/tmp`, one of another version may lie."""
    return str(tmp_path_factory.mktemp("browser"))


@pytest.fixture
def make(stack: Deployment) -> Callable[[str], User]:
    """Make users whose names no other test has."""

    def make_user(name: str) -> User:
        unique = f"{name}-{uuid.uuid4().hex[:8]}"
        return User(stack, unique, stack.token(unique))

    return make_user
