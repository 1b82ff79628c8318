"""Templates of the app's own stack, and a stack of somebody else's app."""

import pytest
from aws_cdk import App, Stack

from tests.infra.template import Template, synthesized


@pytest.fixture(scope="session")
def dev() -> Template:
    """The default stage."""
    return synthesized()


@pytest.fixture(scope="session")
def prod() -> Template:
    """The production stage with an issuer and every option."""
    return synthesized(
        stage="prod",
        jwt_issuer="https://issuer.example.com/",
        jwt_audience="timeline,web",
        user_claim="email",
        cors_origins="https://app.example.com",
        warm_write_units="20000",
        max_write_request_units="30000",
        contributor_insights="true",
        alarm_email="operators@example.com",
    )


@pytest.fixture(scope="session")
def shared() -> Template:
    """The default stage with channels."""
    return synthesized(channel_threshold="100000")


@pytest.fixture(params=["dev", "prod"])
def template(request: pytest.FixtureRequest) -> Template:
    """The template of each stage in turn."""
    chosen: Template = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def stack() -> Stack:
    """A stack of a foreign app: it has no feature flags of this one."""
    app = App(context={"aws:cdk:bundling-stacks": []})
    return Stack(app, "Shop")
