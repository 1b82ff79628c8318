"""`fanfold preflight`: what the account has is compared with what the synthesized stack wants."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import boto3
import pytest
from aws_cdk import App
from botocore.client import BaseClient
from botocore.exceptions import ReadTimeoutError
from moto import mock_aws
from moto.cloudformation.models import cloudformation_backends
from typer.testing import CliRunner

from fanfold_cli import aws
from fanfold_cli.app import app
from fanfold_cli.commands import preflight as command
from fanfold_cli.commands.preflight import ordinary_deploy
from fanfold_cli.local import assembly
from fanfold_cli.preflight import synthesis
from fanfold_cli.preflight.wanted import Wanted
from fanfold_cli.terminal import ExpectedError
from infra.settings.context import choose
from tests.commands import Ran
from tests.infra.template import made
from tests.service import REGION, error

ROOT = Path(__file__).parents[3]
ACCOUNT = "123456789012"
PROD = ("stage=prod", "user_pool=true", "alarms_unwatched=true")
FIRST = (*PROD, "first_deploy=true")
# More than accounts have at first.
ROOMY = (
    *FIRST,
    "requests_per_second=12000",
    "warm_write_units=20000",
    "max_write_request_units=20000",
)
SHORTER = (*FIRST, "retention_days=7")
HEARD = (*FIRST, "alarm_email=ann@example.com", "slack_workspace_id=T1", "slack_channel_id=C1")
STACK = "Fanfold-prod"
TABLE = "AWS::DynamoDB::GlobalTable"
POOL = {
    "ResourceType": "AWS::Cognito::UserPool",
    "LogicalResourceId": "FanfoldIdentityPoolD8C09048",
    "PhysicalResourceId": "eu-central-1_pool",
    "ResourceStatus": "CREATE_COMPLETE",
}


@cache
def assembled(*context: str) -> assembly.SynthesizedStack:
    """The stage that the context names, synthesized as the command does, but for its name."""
    values = dict(value.split("=") for value in context)
    cdk = made(**values).node.root
    assert isinstance(cdk, App)
    (found,) = assembly.read_stacks(Path(cdk.synth().directory))
    return replace(found, name=f"Fanfold-{choose(values).name}")


@dataclass
class World:
    """An account on moto, with what moto lacks."""

    answers: dict[str, Any] = field(default_factory=dict)
    called: set[str] = field(default_factory=set)
    is_protected: bool = False  # the tables, and the pool
    beside: list[dict[str, str]] = field(default_factory=lambda: [POOL])  # moto makes none of it
    allowed: set[str] | None = None

    def client(self, service: str) -> Any:
        return boto3.client(service, region_name=REGION)  # type: ignore[call-overload]

    def preflight(self, *context: str) -> Ran:
        self.called.clear()
        options = [word for value in context for word in ("-c", value)]
        result = CliRunner().invoke(app, ["preflight", *options, "--json"])
        failure = result.exception
        if failure and not isinstance(failure, ExpectedError | SystemExit):
            raise failure
        said = str(failure) if isinstance(failure, ExpectedError) else result.stderr
        return Ran(result.exit_code, result.stdout, said)

    def deploy(self, *context: str) -> None:
        """Make the stack's tables and alarm topic, as far as moto's CloudFormation knows them."""
        stack = assembled(*context)
        made: dict[str, Any] = {}
        for logical_id, resource in stack.template["Resources"].items():
            wanted = resource.get("Properties", {})
            if resource["Type"] == TABLE:
                keys = [key["AttributeName"] for key in wanted["KeySchema"]]
                properties = {
                    "KeySchema": wanted["KeySchema"],
                    "BillingMode": "PAY_PER_REQUEST",
                    "AttributeDefinitions": [
                        {"AttributeName": key, "AttributeType": "S"} for key in keys
                    ],
                }
                made[logical_id] = {"Type": "AWS::DynamoDB::Table", "Properties": properties}
            elif resource["Type"] == "AWS::SNS::Topic":
                made[logical_id] = {"Type": "AWS::SNS::Topic"}
            elif resource["Type"] == "AWS::SNS::Subscription":
                self.beside.append(
                    {**POOL, "ResourceType": resource["Type"], "LogicalResourceId": logical_id}
                )
        self.client("cloudformation").create_stack(
            StackName=stack.name,
            TemplateBody=json.dumps({"Resources": made}),
            EnableTerminationProtection=stack.is_protected,
        )
        self.protect(stack.is_protected)
        self.answers["GetTemplate"] = {"TemplateBody": stack.template}

    def protect(self, is_protected: bool) -> None:
        dynamodb = self.client("dynamodb")
        self.is_protected = is_protected
        for name in dynamodb.list_tables()["TableNames"]:
            dynamodb.update_table(TableName=name, DeletionProtectionEnabled=is_protected)

    @property
    def stack(self) -> Any:
        """The only stack, which moto neither fails nor protects."""
        (stack,) = cloudformation_backends[ACCOUNT][REGION].stacks.values()
        return stack


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A bootstrapped account with the quotas of an old one."""
    world = World()
    limits = {"ConcurrentExecutions": 1_000, "UnreservedConcurrentExecutions": 990}
    world.answers = {
        "GetAccountSettings": {"AccountLimit": limits},
        "DescribeLimits": {"TableMaxWriteCapacityUnits": 40_000},
        "GetAccount": {"throttleSettings": {"rateLimit": 10_000.0, "burstLimit": 5_000}},
    }
    plain = BaseClient._make_api_call  # type: ignore[attr-defined]

    def call(self: BaseClient, operation: str, request: dict[str, Any]) -> Any:
        service = self.meta.service_model.service_name
        # The one action of IAM for all that API Gateway reads.
        action = f"{service}:{'GET' if service == 'apigateway' else operation}"
        world.called.add(action)
        if world.allowed is not None and action not in world.allowed:
            raise error("AccessDeniedException", 400)
        answer = world.answers.get(operation)
        if isinstance(answer, Exception):
            raise answer
        if answer is not None:
            return answer
        if operation == "DescribeUserPool":
            assert request == {"UserPoolId": POOL["PhysicalResourceId"]}
            state = "ACTIVE" if world.is_protected else "INACTIVE"
            return {"UserPool": {"DeletionProtection": state}}
        found = plain(self, operation, request)
        if operation == "ListStackResources":
            found["StackResourceSummaries"] += world.beside
        return found

    monkeypatch.setattr(BaseClient, "_make_api_call", call)
    monkeypatch.setattr(command, "synthesize", lambda context: assembled(*context))
    # A new one, or it would keep the profile of an earlier test.
    monkeypatch.setattr(aws, "_session", cache(aws.own_session))
    monkeypatch.setenv("AWS_REGION", REGION)
    with mock_aws():
        world.client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
        )
        yield world


def results(ran: Ran) -> dict[str, str]:
    return {check["name"]: check["status"] for check in ran.json["checks"]}


def sentence(ran: Ran, name: str) -> str:
    return next(str(each["sentence"]) for each in ran.json["checks"] if each["name"] == name)


FIRST_OK = {
    "account": "ok",
    "bootstrap": "ok",
    "stack": "ok",
    "warm tables": "ok",
    "concurrency": "ok",
    "write quota": "ok",
    "requests": "ok",
}
GOOD = {**FIRST_OK, "retention": "ok", "alarms": "ok"}  # of a stack that exists


def test_from_the_first_deploy_to_the_protected_stack(world: World) -> None:
    refused = world.preflight(*PROD)
    assert (refused.exit_code, results(refused)["stack"]) == (1, "refused")

    before = world.preflight(*FIRST)
    assert (before.exit_code, results(before)) == (0, FIRST_OK)
    assert f"{ACCOUNT}, region {REGION}" in sentence(before, "account")

    world.deploy(*FIRST)
    second = "`npx cdk deploy -c stage=prod -c user_pool=true -c alarms_unwatched=true`"
    for context in (PROD, FIRST):
        after = world.preflight(*context)
        assert (after.exit_code, results(after)) == (0, {**GOOD, "stack": "warning"})
        assert second in sentence(after, "stack")

    world.protect(True)
    half = world.preflight(*PROD)
    assert sentence(half, "stack").startswith("Nothing protects the stack from deletion.")
    world.stack.enable_termination_protection = True  # moto lacks the call
    assert world.preflight(*PROD).json["checks"][2]["sentence"] == (
        "Fanfold-prod is protected from deletion, with 7 tables and 1 pool."
    )
    again = world.preflight(*FIRST)
    assert (again.exit_code, results(again)["stack"]) == (1, "refused")


def test_after_a_failed_first_deploy_the_same_deploy_may_follow(world: World) -> None:
    world.deploy(*FIRST)
    world.stack.status = "ROLLBACK_COMPLETE"
    ran = world.preflight(*SHORTER)  # no entry has ever lived there
    assert (ran.exit_code, results(ran)) == (0, {**FIRST_OK, "alarms": "ok"})


def test_a_new_account_without_anything(world: World) -> None:
    world.client("ssm").delete_parameter(Name="/cdk-bootstrap/hnb659fds/version")
    limits = {"ConcurrentExecutions": 10, "UnreservedConcurrentExecutions": 5}
    world.answers["GetAccountSettings"] = {"AccountLimit": limits}
    world.answers["DescribeLimits"] = {"TableMaxWriteCapacityUnits": 10_000}
    ran = world.preflight(*ROOMY)
    bad = dict.fromkeys(("bootstrap", "concurrency", "write quota"), "will fail")
    assert (ran.exit_code, results(ran)) == (1, FIRST_OK | bad | {"requests": "warning"})
    assert "cdk bootstrap" in sentence(ran, "bootstrap")
    assert "max_write_request_units is 20,000" in sentence(ran, "write quota")


def test_colder_tables_and_a_lower_rate_than_the_stage_says_are_warnings(world: World) -> None:
    world.deploy(*FIRST)
    ran = world.preflight(*ROOMY)
    warned = {**GOOD, "stack": "warning", "warm tables": "warning"}
    assert (ran.exit_code, results(ran)) == (0, {**warned, "requests": "warning"})
    assert "timelines 4,000, followers 4,000" in sentence(ran, "warm tables")
    assert sentence(ran, "warm tables").count("WriteUnitsPerSecond=20000") == 2
    assert "12,000" in sentence(ran, "requests")
    for account in ({"throttleSettings": {"rateLimit": 12_000.0}}, {}):
        world.answers["GetAccount"] = account  # API Gateway may leave the rate out
        assert results(world.preflight(*ROOMY)) == warned


def test_an_address_that_never_confirmed_hears_no_alarm(world: World) -> None:
    world.answers["DescribeSlackChannelConfigurations"] = {"SlackChannelConfigurations": []}
    world.deploy(*HEARD)
    sns = world.client("sns")
    (topic,) = (each["TopicArn"] for each in sns.list_topics()["Topics"])
    sns.subscribe(TopicArn=topic, Protocol="email", Endpoint="ann@example.com")
    (confirmed,) = sns.list_subscriptions()["Subscriptions"]
    assert sentence(world.preflight(*HEARD), "alarms").startswith("Alarms go to 1 address,")
    for state in ("PendingConfirmation", "Deleted"):
        subscription = {**confirmed, "SubscriptionArn": state}
        world.answers["ListSubscriptionsByTopic"] = {"Subscriptions": [subscription]}
        ran = world.preflight(*HEARD)
        assert (ran.exit_code, results(ran)["alarms"]) == (0, "warning")
        assert "reaches ann@example.com: not confirmed" in sentence(ran, "alarms")
        assert f"--topic-arn {topic}" in sentence(ran, "alarms")


def test_the_issuer_of_the_stage_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "https://login.example.com/"
    documents = {
        f"{address}.well-known/openid-configuration": {
            "issuer": address,
            "jwks_uri": "https://keys.example.com",
        },
        "https://keys.example.com": {"keys": [{"kty": "RSA", "kid": "1"}]},
    }
    monkeypatch.setattr(command, "fetch", lambda url: json.dumps(documents[url]).encode())
    own = ("stage=prod", "alarms_unwatched=true", "jwt_audience=app", "first_deploy=true")
    ran = world.preflight(*own, f"jwt_issuer={address}")
    assert (ran.exit_code, results(ran)) == (0, {"issuer": "ok", **FIRST_OK})
    documents["https://keys.example.com"] = {"keys": [{"kty": "EC"}]}
    ran = world.preflight(*own, f"jwt_issuer={address}")
    assert (ran.exit_code, results(ran)) == (1, {"issuer": "will fail", **FIRST_OK})


@pytest.mark.parametrize("raised", [error("ExpiredToken", 403), ReadTimeoutError(endpoint_url="x")])
def test_without_an_answer_of_aws_the_other_checks_are_left_out(
    world: World, raised: Exception
) -> None:
    world.answers["GetCallerIdentity"] = raised
    ran = world.preflight(*FIRST)
    assert (ran.exit_code, results(ran)) == (1, {"account": "will fail"})
    assert "the other checks are left out" in sentence(ran, "account")


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("AWS_REGION", None, "set AWS_REGION"),
        # What botocore refuses is no traceback.
        ("AWS_REGION", "no_t!", "no_t!"),
        ("AWS_ENDPOINT_URL", "no address", "no address"),
        # A local engine is not taken for AWS.
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:4566", "unset AWS_ENDPOINT_URL"),
    ],
)
def test_an_account_that_cannot_be_asked_is_reported(
    world: World, monkeypatch: pytest.MonkeyPatch, variable: str, value: str | None, said: str
) -> None:
    assembled(*FIRST)
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    if value is None:
        monkeypatch.delenv(variable)
        monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    else:
        monkeypatch.setenv(variable, value)
    ran = world.preflight(*FIRST)
    assert (ran.exit_code, results(ran)) == (1, {"account": "will fail"})
    assert said in sentence(ran, "account")


OF_STACK = ("stack", "warm tables", "retention", "alarms")
# Which checks cannot be made without an answer to a call.
UNMADE = {
    "GetParameter": ("bootstrap",),
    "GetTemplate": ("retention",),
    "ListSubscriptionsByTopic": ("alarms",),
    "GetAccountSettings": ("concurrency",),
    "DescribeLimits": ("write quota",),
    "GetAccount": ("requests",),
    # A stack that cannot be read is not taken for one that does not exist.
    "DescribeStacks": OF_STACK,
    "ListStackResources": OF_STACK,
    "DescribeUserPool": ("stack",),
    "DescribeTable": ("stack", "warm tables"),
}


def test_a_check_that_cannot_be_made_is_a_warning_and_stops_no_other(world: World) -> None:
    world.deploy(*FIRST)
    found = {**GOOD, "stack": "warning", "retention": "refused"}
    denied, late = error("AccessDeniedException", 400), ReadTimeoutError(endpoint_url="x")
    too_late = [("GetAccount", late), ("DescribeStacks", late), ("DescribeUserPool", late)]
    for operation, raised in [*((each, denied) for each in UNMADE), *too_late]:
        before = world.answers.get(operation)
        world.answers[operation] = raised
        ran = world.preflight(*SHORTER)
        unmade = dict.fromkeys(UNMADE[operation], "warning")
        assert results(ran) == {**found, **unmade}, operation
        if operation == "DescribeUserPool":
            assert POOL["PhysicalResourceId"] in sentence(ran, "stack")
        world.answers[operation] = before


def documented() -> set[str]:
    """The permissions that docs/operations.md gives for the command, in boto3's names."""
    operations = (ROOT / "docs/operations.md").read_text()
    (row,) = re.findall(r"^\| `preflight` \| (.*) \|$", operations, re.M)
    # DescribeStacks is what every command needs; GetCallerIdentity cannot be denied.
    known = {"cloudformation:DescribeStacks", "sts:GetCallerIdentity"}
    return known | set(re.findall(r"`([\w-]+:\w+)`", row))


def test_it_needs_exactly_the_permissions_that_are_documented_and_changes_nothing(
    world: World,
) -> None:
    world.deploy(*FIRST)
    world.allowed = documented()
    world.answers["DescribeSlackChannelConfigurations"] = {"SlackChannelConfigurations": []}
    ran = world.preflight(*HEARD)
    assert results(ran) == {**GOOD, "stack": "warning", "Slack": "ok"}
    # Only `--roll-back` reads tables.
    assert world.called == world.allowed - {"dynamodb:Scan"}
    assert all(re.search(r":(GET$|(Get|Describe|List)[A-Z])", action) for action in world.called)
    world.preflight(*FIRST)
    assert "chatbot:DescribeSlackChannelConfigurations" not in world.called, "it names no channel"


def test_people_get_a_table_and_a_conclusion(world: World) -> None:
    result = CliRunner().invoke(app, ["preflight", "-c", "stage=dev"])
    assert result.exit_code == 0
    assert "concurrency" in result.stdout
    assert "Nothing stands in the way of a deploy: 0 checks of 7 failed." in result.stderr


def test_an_interrupt_says_that_nothing_was_changed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_context: list[str]) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "synthesize", interrupt)
    ran = world.preflight(*FIRST)
    assert (ran.exit_code, ran.stdout) == (130, "")
    assert ran.said.endswith("Interrupted: nothing was changed.\n")


def test_a_value_without_a_name_is_refused(world: World) -> None:
    ran = world.preflight("prod")
    assert (ran.exit_code, ran.said) == (
        1,
        "-c must be NAME=VALUE, such as stage=prod, not 'prod'.",
    )


def test_the_ordinary_deploy_is_quoted_for_a_shell_and_has_no_first_deploy() -> None:
    given = ["stage=prod", "first_deploy = true", "cors_origins=https://a.example, b"]
    assert ordinary_deploy(given) == (
        "npx cdk deploy -c stage=prod -c 'cors_origins=https://a.example, b'"
    )


@pytest.mark.thorough
def test_the_real_command_line_synthesizes_the_same_without_bundling(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "there-is-none")
    context = [*PROD, "warm_write_units=20000", "max_write_request_units=30000"]
    found = Wanted.by(synthesis.synthesize(context))
    assert found == Wanted.by(assembled(*context))
    assert (found.stack, found.is_protected, found.keeps_data) == (STACK, True, True)
    assert (found.warm_write_units, found.max_write_units) == (20_000, 30_000)
    assert found.bootstrap_version == 6


@pytest.mark.thorough
def test_what_the_app_refuses_is_said_in_its_words() -> None:
    with pytest.raises(ExpectedError, match="does not say who its users are") as raised:
        synthesis.synthesize(["stage=prod"])
    assert "Subprocess" not in str(raised.value)
    assert "Traceback" not in str(raised.value)


def test_a_synthesis_that_hangs_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = tmp_path / "cdk"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    monkeypatch.setenv("FANFOLD_CDK", str(slow))
    monkeypatch.setattr(synthesis, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(ExpectedError, match="was not synthesized within"):
        synthesis.synthesize([])


def test_a_slack_channel_is_configured_once_in_an_account(world: World) -> None:
    taken = {"SlackTeamId": "T1", "SlackChannelId": "C1", "ConfigurationName": "other"}
    for configured, status in (
        ({**taken, "SlackTeamId": "T2"}, "ok"),
        ({**taken, "SlackChannelId": "C2"}, "ok"),
        ({**taken, "ConfigurationName": f"fanfold-prod-{REGION}"}, "ok"),
        (taken, "will fail"),
    ):
        answer = {"SlackChannelConfigurations": [configured]}
        world.answers["DescribeSlackChannelConfigurations"] = answer
        assert results(world.preflight(*HEARD)) == {**FIRST_OK, "Slack": status}
