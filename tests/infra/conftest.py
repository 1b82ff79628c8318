"""Templates of the stack, synthesized once per session and without bundling."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack

from infra.context import choose
from infra.stack import FanfoldStack

Template = dict[str, Any]
Synthesize = Callable[..., Template]

CDK_JSON = Path(__file__).parents[2] / "cdk.json"


@pytest.fixture(scope="session")
def flags() -> dict[str, Any]:
    """The feature flags of cdk.json, as in a deployment."""
    context: dict[str, Any] = json.loads(CDK_JSON.read_text())["context"]
    return context


@pytest.fixture(scope="session")
def make_app(flags: dict[str, Any]) -> Callable[..., App]:
    """Make an app as `cdk -c name=value …` does, which bundles nothing."""

    def make(outdir: str | None = None, **context: str) -> App:
        return App(outdir=outdir, context={**flags, "aws:cdk:bundling-stacks": [], **context})

    return make


@pytest.fixture(scope="session")
def synthesize(make_app: Callable[..., App]) -> Synthesize:
    """Synthesize the stage that the context names, and return its template."""

    def synthesize_stage(**context: str) -> Template:
        app = make_app(**context)
        stack = FanfoldStack(app, "Fanfold", stage=choose(app.node.get_all_context()))
        template: Template = app.synth().get_stack_by_name(stack.stack_name).template
        return template

    return synthesize_stage


@pytest.fixture(scope="session")
def dev(synthesize: Synthesize) -> Template:
    """The default stage."""
    return synthesize()


@pytest.fixture(scope="session")
def prod(synthesize: Synthesize) -> Template:
    """The production stage with an issuer and every option."""
    return synthesize(
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
def shared(synthesize: Synthesize) -> Template:
    """The default stage with channels."""
    return synthesize(channel_threshold="100000")


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
