"""What cdk-nag and cfn-lint say about each stage: findings are repaired, or accepted for a reason.

cfn-lint holds the template to the schemas of its release, so it needs no network.
"""

import json
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest
from aws_cdk import App, Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from infra.settings.stages import DEV, LOCAL
from tests.infra.embedding.test_surroundings import BY_IDS
from tests.infra.template import Template, make_stack, resources

Finding = tuple[str, str]  # the rule, and where: a construct's path or a logical id


class Accepted(NamedTuple):
    rule: str
    where: str  # a pattern as in file names
    why: str


EVERYWHERE = (
    Accepted(
        "Serverless-SQSRedrivePolicy",
        "*/DeadLetters/Resource",
        "It is a dead-letter queue itself; an operator redrives from it.",
    ),
    Accepted(
        "Serverless-LambdaEventSourceMappingDestination",
        "*/SqsEventSource:*",
        "Lambda has no destination for a queue's messages: their redrive policy is one.",
    ),
    Accepted(
        "Serverless-LambdaDLQ",
        "*Function/Resource",
        "Only SWEEP is invoked asynchronously, and there the next minute's run is the retry.",
    ),
    Accepted(
        "Serverless-LambdaAsyncFailureDestination",
        "*/SweepFunction/*",
        "The next run does the work of one that failed, and an alarm rings if none comes through.",
    ),
    Accepted(
        "Serverless-EventBusDLQ",
        "*/EveryMinute/*",
        "A lost tick is followed by another one in a minute, and an alarm rings without any.",
    ),
    Accepted(
        "Serverless-LambdaTracing",
        "*Function/Resource",
        "X-Ray is billed by the trace and slows cold starts; the ledger tells where a post is.",
    ),
    Accepted(
        "W3005",
        "*Function*",
        "CDK itself lets a function depend on its role, beside the policy where that matters.",
    ),
)
OF_POOLS = (
    Accepted(
        "AwsSolutions-COG8",
        "*/Identity/Pool/*",
        "The plus tier is billed per user; whoever needs its threat protection brings an issuer.",
    ),
    Accepted(
        "AwsSolutions-COG2",
        "*/Identity/Pool/*",
        "The pool is for trying the service out, by scripts that sign in with a password alone.",
    ),
)
# Only the stage `local` runs on this machine's Python.
OF_THIS_PYTHON = (
    Accepted("AwsSolutions-L1", "*Function/Resource", "A local engine runs what is installed."),
    Accepted(
        "Serverless-LambdaLatestVersion", "*Function/Resource", "It is the same rule once more."
    ),
)
OF_MAIL = (
    Accepted(
        "Serverless-SNSRedrivePolicy",
        "*/Alarms/Topic/*",
        "SNS repeats an e-mail for hours, and whoever missed it would not look into a queue.",
    ),
)
OF_NETWORKS = (
    Accepted(
        "AwsSolutions-IAM5[Resource::*]",
        "*FunctionRole/DefaultPolicy/*",
        "AWS takes no resource for the actions by which Lambda attaches a function to a VPC.",
    ),
)

IS_NEWEST = LOCAL.runtime == DEV.runtime
ISSUER = {"stage": "prod", "jwt_issuer": "https://issuer.example.com", "jwt_audience": "timeline"}
MAIL = {"alarm_email": "operators@example.com"}
SLACK = {"slack_workspace_id": "T0123ABCDEF", "slack_channel_id": "C0123ABCDEF"}
CAPACITY = {
    "warm_write_units": "20000",
    "max_write_request_units": "30000",
    "contributor_insights": "true",
}
CORS = {"cors_origins": "https://app.example.com"}
# What is deployed, and what is accepted there beside what is accepted everywhere.
CASES: dict[str, tuple[dict[str, str], tuple[Accepted, ...]]] = {
    "dev": ({"stage": "dev"}, OF_POOLS),
    "local": ({"stage": "local"}, OF_POOLS + (() if IS_NEWEST else OF_THIS_PYTHON)),
    "prod with a pool": ({"stage": "prod", "user_pool": "true", **MAIL}, OF_POOLS + OF_MAIL),
    "prod with an issuer": ({**ISSUER, **MAIL}, OF_MAIL),
    "prod with Slack": ({**ISSUER, **SLACK}, ()),
    "prod for browsers, with every option of its tables": (
        {**ISSUER, **MAIL, **CAPACITY, **CORS},
        OF_MAIL,
    ),
    "prod with all that a team asks for": ({**ISSUER, **BY_IDS}, OF_NETWORKS),
}


def judge(context: dict[str, str]) -> tuple[Template, set[Finding]]:
    """The template, and what cdk-nag finds in the app: errors and warnings."""
    stack = make_stack(**context)
    app = stack.node.root
    assert isinstance(app, App)
    Validations.of(stack).add_plugins(AwsSolutionsChecks(stack), ServerlessChecks(stack))
    with pytest.raises(RuntimeError, match="ValidationFailed"):  # there is always some error
        app.synth()
    made = Path(app.outdir)
    report = json.loads((made / "validation-report.json").read_text())
    found = {
        (violation["ruleName"], construct["constructPath"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    }
    return json.loads((made / f"{stack.artifact_id}.template.json").read_text()), found


def linted(template: Template) -> set[Finding]:
    """What cfn-lint finds in the template: errors and warnings."""
    # Here: importing them takes three seconds, of each process that collects tests.
    from cfnlint.api import lint  # type: ignore[import-untyped]
    from cfnlint.config import ManualArgs  # type: ignore[import-untyped]

    matches = lint(json.dumps(template), config=ManualArgs(regions=["eu-central-1"]))
    return {(match.rule.id, str(match.path[1])) for match in matches}


def assert_accepted(found: Iterable[Finding], accepted: Iterable[Accepted]) -> None:
    """Nothing else is found, and nothing is accepted that is not found."""
    left, unused = set(found), set(accepted)
    for each in accepted:
        fits = {
            (rule, at) for rule, at in left if rule == each.rule and fnmatchcase(at, each.where)
        }
        left -= fits
        unused -= {each} if fits else set()
    assert not left, f"Repair these, or accept them with a reason: {sorted(left)}"
    assert not unused, f"These are found no longer, so take them out: {sorted(unused)}"


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES)
def test_a_stage_keeps_all_rules_except_those_with_a_reason(case: str) -> None:
    context, accepted = CASES[case]
    template, found = judge(context)
    assert_accepted(found | linted(template), EVERYWHERE + accepted)


@pytest.mark.thorough
def test_a_finding_without_a_reason_fails() -> None:
    _, found = judge({"stage": "dev"})
    by_nag = [each for each in (*EVERYWHERE, *OF_POOLS) if each.rule != "W3005"]
    for left_out in by_nag:
        with pytest.raises(AssertionError, match=left_out.rule):
            assert_accepted(found, [each for each in by_nag if each is not left_out])
    with pytest.raises(AssertionError, match="found no longer"):
        assert_accepted(found, [*by_nag, *OF_MAIL])


@pytest.mark.thorough
def test_cfn_lint_notices_what_cloudformation_would_refuse(dev: Template) -> None:
    template = json.loads(json.dumps(dev))
    expected = set()
    for number, (kind, spoilt, rule) in enumerate(
        [
            ("AWS::SQS::Queue", {"VisibilityTimeoutSeconds": 360}, "E3002"),
            ("AWS::SQS::Queue", {"VisibilityTimeout": 50_000}, "E3034"),
            ("AWS::Lambda::Function", {"Runtime": "python3.99"}, "E3030"),
            ("AWS::Lambda::Function", {"Role": {"Ref": "Nobody"}}, "E1020"),
            ("AWS::DynamoDB::GlobalTable", {"BillingMode": "FREE"}, "E3030"),
            ("AWS::CloudWatch::Alarm", {"TreatMissingData": "ignored"}, "E3030"),
        ]
    ):
        name = list(resources(template, kind))[number % 2]
        template["Resources"][name]["Properties"] |= spoilt
        expected.add((rule, name))
    found = {each for each in linted(template) if each[0] != "W3005"}
    assert expected <= found
    assert {name for _, name in found} == {name for _, name in expected}
