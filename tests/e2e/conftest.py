"""One local engine for all end-to-end tests, with the real app deployed on it."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from fanfold import names
from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User
from tests.e2e.logs import assert_no_secrets
from tests.e2e.tokens import Sign, part, signed
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


@pytest.fixture(scope="module")
def token(stack: Deployment) -> str:
    """That of a user of whom nothing is known."""
    return stack.token(f"user-{uuid.uuid4().hex[:8]}")


@pytest.fixture(scope="session")
def pool_key(engine: Home, stack: Deployment) -> rsa.RSAPrivateKey:
    """The key by which the stack's pool signs access tokens; the engine keeps it in its home."""
    stack.token("signed")  # with the first token comes the file
    pool = stack.output(names.USER_POOL_ID_OUTPUT)
    pem = next(engine.path.rglob(f"{pool}-access.pem")).read_bytes()
    key = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


@pytest.fixture(scope="module")
def resign(pool_key: rsa.RSAPrivateKey, token: str) -> Sign:
    """Sign changed claims with the pool's own key; those that are None are left out."""

    def sign(changes: dict[str, Any]) -> str:
        claims = {**part(token, 1), **changes}
        kept = {name: value for name, value in claims.items() if value is not None}
        return signed(part(token, 0), kept, pool_key)

    return sign
