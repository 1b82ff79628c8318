"""Templates of the app's own stack and of a foreign app, each synthesized once for all tests."""

import pytest
from aws_cdk import Stack

from tests.infra.foreign import Shop, foreign_stack, opened_shop
from tests.infra.recorded import STAGES
from tests.infra.template import Template, synthesized


@pytest.fixture(scope="session")
def dev() -> Template:
    """The default stage."""
    return synthesized()


@pytest.fixture(scope="session")
def prod() -> Template:
    """The production stage with an issuer and every option."""
    return synthesized(**STAGES["prod"])


@pytest.fixture(scope="session")
def pooled() -> Template:
    """The production stage with a pool of its own."""
    return synthesized(**STAGES["pooled"])


@pytest.fixture(scope="session")
def chosen() -> Template:
    """The default stage with another value wherever one value changes little."""
    return synthesized(**STAGES["chosen"])


@pytest.fixture(scope="session")
def shared() -> Template:
    """The default stage with channels."""
    return synthesized(**STAGES["shared"])


@pytest.fixture(params=["dev", "prod"])
def template(request: pytest.FixtureRequest) -> Template:
    """The template of each stage in turn."""
    given: Template = request.getfixturevalue(request.param)
    return given


@pytest.fixture
def stack() -> Stack:
    return foreign_stack()


@pytest.fixture(scope="session")
def shop() -> Shop:
    return opened_shop()
