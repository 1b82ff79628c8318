"""`fanfold smoke` on the engine: the stage works, and nothing is left behind."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from fanfold import names
from fanfold_cli.app import app
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User


def smoke(engine: Home, *options: str) -> tuple[int, Any]:
    command = ["smoke", "--json", "--home", str(engine.path), *options]
    ran = CliRunner().invoke(app, command)
    return ran.exit_code, json.loads(ran.stdout)


def synthetic_users(stack: Deployment) -> list[str]:
    pool = stack.output(names.USER_POOL_ID_OUTPUT)
    users = stack.client("cognito-idp").list_users(UserPoolId=pool)["Users"]
    return [user["Username"] for user in users if user["Username"].startswith("fanfold-smoke-")]


def test_a_stage_that_works_passes_every_step_and_has_no_more_users_than_before(
    engine: Home, stack: Deployment
) -> None:
    exit_code, result = smoke(engine)
    assert (exit_code, result["is_right"], result["left"]) == (0, True, []), result
    assert len(result["steps"]) == 9
    assert synthetic_users(stack) == []


@pytest.mark.thorough
def test_a_stage_that_delivers_nothing_fails_and_is_cleaned_up(
    engine: Home, stack: Deployment
) -> None:
    runner, where = CliRunner(), ("--lane", "publish", "--home", str(engine.path))
    assert runner.invoke(app, ["pause", *where]).exit_code == 0
    try:
        exit_code, result = smoke(engine, "--patience", "5")
    finally:
        resumed = runner.invoke(app, ["resume", *where])
    assert resumed.exit_code == 0, resumed.output
    assert (exit_code, result["is_right"], result["left"]) == (1, False, [])
    # A poll that was under way at the pause may still take the first of these posts.
    assert result["steps"][-1]["name"].endswith(" reaches the follower")
    assert result["steps"][-1]["failure"] == "not within 5 s: the timeline does not show it"
    assert synthetic_users(stack) == []


def test_with_tokens_of_two_test_users_it_creates_and_deletes_no_user(
    engine: Home, stack: Deployment, make: Callable[[str], User], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the pool is protected, or users come from an issuer."""
    publisher, follower = make("publisher"), make("follower")
    monkeypatch.setenv("FANFOLD_PUBLISHER_TOKEN", publisher.token)
    monkeypatch.setenv("FANFOLD_FOLLOWER_TOKEN", follower.token)
    monkeypatch.setattr(Deployment, "token", None)
    exit_code, result = smoke(engine)
    assert (exit_code, result["is_right"], result["left"]) == (0, True, []), result
    assert list(follower.api.following()) == []
    pool = stack.output(names.USER_POOL_ID_OUTPUT)
    for user in (publisher, follower):
        stack.client("cognito-idp").admin_get_user(UserPoolId=pool, Username=user.name)
