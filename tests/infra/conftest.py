"""Templates of the app's own stack and of a foreign app, each synthesized once for all tests."""

import pytest
from aws_cdk import Stack

from tests.infra.foreign import Shop, foreign_stack, opened_shop
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
        large_fanout_days="2",
    )


@pytest.fixture(scope="session")
def pooled() -> Template:
    """The production stage with a pool of its own."""
    return synthesized(stage="prod", user_pool="true", alarms_unwatched="true")


@pytest.fixture(scope="session")
def chosen() -> Template:
    """The default stage with another value wherever one value changes little."""
    return synthesized(
        user_claim="username",
        post_readers="publisher",
        follower_readers="users",
        backfill="0",
        retention_days="1",
        transport="boto3",
        streams="true",
        contributor_insights="true",
        daily_write_units="1000000",
        requests_per_second="12000",
        slack_workspace_id="T0123ABCDEF",
        slack_channel_id="C0123ABCDEF",
        permissions_boundary="arn:aws:iam::123456789012:policy/teams/developers",
        concurrency="100",
        max_write_request_units="10000",
        publish_concurrency="3",
        express_concurrency="40",
        bulk_concurrency="10",
        relation_concurrency="2",
    )


@pytest.fixture(scope="session")
def shared() -> Template:
    """The default stage with channels."""
    return synthesized(channel_threshold="100000")


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
