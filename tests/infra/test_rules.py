"""The AwsSolutions rules of cdk-nag: findings are repaired, or acknowledged with a reason."""

from collections.abc import Callable

import pytest
from aws_cdk import Acknowledgment, App, Validations
from cdk_nag import AwsSolutionsChecks

from infra.context import choose
from infra.stack import FanfoldStack

POOL_RULES = {
    "AwsSolutions::AwsSolutions-COG8": (
        "The plus tier is billed per user; whoever needs its threat protection brings an issuer."
    ),
    "AwsSolutions::AwsSolutions-COG2": (
        "The pool is for trying the service out, by scripts that sign in with a password alone."
    ),
}

WATCHED = {"alarm_email": "operators@example.com"}
POOL = {"user_pool": "true", **WATCHED}
ISSUER = {"jwt_issuer": "https://issuer.example.com", "jwt_audience": "timeline", **WATCHED}
CASES = {
    "dev": ({"stage": "dev"}, POOL_RULES),
    "prod with a pool": ({"stage": "prod", **POOL}, POOL_RULES),
    "prod with an issuer": ({"stage": "prod", **ISSUER}, {}),
    "prod with Slack": (
        {
            "stage": "prod",
            **ISSUER,
            "slack_workspace_id": "T0123ABCDEF",
            "slack_channel_id": "C0123ABCDEF",
        },
        {},
    ),
    "prod with Contributor Insights": (
        {"stage": "prod", **ISSUER, "contributor_insights": "true"},
        {},
    ),
    "prod for browsers": (
        {"stage": "prod", **ISSUER, "cors_origins": "https://app.example.com"},
        {"AwsSolutions::AwsSolutions-APIG4": "A browser's preflight cannot carry a token."},
    ),
}


def check(make_app: Callable[..., App], context: dict[str, str], accepted: dict[str, str]) -> None:
    app = make_app(**context)
    stack = FanfoldStack(app, "Fanfold", stage=choose(app.node.get_all_context()))
    Validations.of(stack).add_plugins(AwsSolutionsChecks(stack))
    for finding, reason in accepted.items():
        Validations.of(stack).acknowledge(Acknowledgment(id=finding, reason=reason))
    app.synth()


@pytest.mark.parametrize("case", CASES)
def test_the_stack_keeps_all_rules_that_are_not_acknowledged(
    make_app: Callable[..., App], case: str
) -> None:
    context, accepted = CASES[case]
    check(make_app, context, accepted)


def test_a_broken_rule_fails_the_synthesis(make_app: Callable[..., App]) -> None:
    with pytest.raises(RuntimeError, match="ValidationFailed"):
        check(make_app, {"stage": "dev"}, {})
