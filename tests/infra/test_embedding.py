"""`FollowTimeline` in somebody's app: what each of its properties does to the template."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_cdk import App, Duration, RemovalPolicy, Stack
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns

from infra import DEV, PROD, FollowTimeline, Sender, StageError, TableOptions, Users
from tests.infra.foreign import allowed, embed
from tests.infra.template import (
    Template,
    functions,
    make_app,
    of_type,
    only,
    resources,
    setting,
    template_of,
    variables,
)

TABLE, QUEUE, LOGS = "AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue", "AWS::Logs::LogGroup"
POOL, AUTHORIZER = "AWS::Cognito::UserPool", "AWS::ApiGatewayV2::Authorizer"
ALARM = "AWS::CloudWatch::Alarm"


@pytest.fixture(scope="module")
def plain() -> Template:
    """A timeline of whose properties only the users are given."""
    stack = Stack(App(context={"aws:cdk:bundling-stacks": []}), "Shop")
    embed(stack)
    return template_of(stack)


def kept(template: Template) -> set[str]:
    """What becomes of all that holds data when it leaves the stack."""
    kinds = (TABLE, QUEUE, POOL, LOGS)
    return {each["DeletionPolicy"] for kind in kinds for each in resources(template, kind).values()}


def protected(template: Template) -> set[bool]:
    tables = of_type(template, TABLE).values()
    return {table["Replicas"][0]["DeletionProtectionEnabled"] for table in tables}


# What is there without being asked for


def test_a_timeline_keeps_its_data_unprotected_and_with_no_key(plain: Template) -> None:
    assert kept(plain) == {"RetainExceptOnCreate"}
    assert protected(plain) == {False}
    assert "kms" not in json.dumps(plain).lower().replace("sqsmanaged", "")


def test_two_timelines_live_in_one_stack(stack: Stack) -> None:
    embed(stack, "News")
    embed(stack, "Offers")
    found = template_of(stack)
    assert len(resources(found, TABLE)) == 2 * 7
    services = [
        properties["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        for properties in of_type(found, "AWS::Lambda::Function").values()
    ]
    assert len(services) == len(set(services)) == 2 * 6
    named = [
        each["LogGroupName"] for each in of_type(found, LOGS).values() if "LogGroupName" in each
    ]
    assert len({json.dumps(name) for name in named}) == len(named) == 2


@pytest.mark.parametrize(("is_local", "is_aws"), [("true", False), ("false", True)])
def test_on_a_local_engine_the_functions_run_on_this_machine(is_local: str, is_aws: bool) -> None:
    stack = Stack(make_app(**{"fanfold:local": is_local}), "Shop")
    embed(stack)
    runtimes = {each["Runtime"] for each in functions(template_of(stack)).values()}
    assert (runtimes == {"python3.14"}) is is_aws


# Its users


def test_somebody_must_say_whose_timelines_they_are(stack: Stack) -> None:
    with pytest.raises(StageError, match="does not say who its users are"):
        FollowTimeline(stack, "Timeline")


def test_users_of_an_issuer_need_no_pool(stack: Stack) -> None:
    embed(stack, users=Users.of_issuer("https://login.example.com", "shop", claim="email"))
    found = template_of(stack)
    assert only(found, AUTHORIZER)["JwtConfiguration"] == {
        "Audience": ["shop"],
        "Issuer": "https://login.example.com",
    }
    assert not resources(found, POOL)
    assert setting(found, "USER_CLAIM") == "email"


def test_users_of_an_existing_pool_come_by_its_clients(stack: Stack) -> None:
    pool = cognito.UserPool(stack, "Users")
    web, phone = pool.add_client("Web"), pool.add_client("Phone")
    embed(stack, users=Users.of_pool(pool, web, phone)).add_outputs()
    found = template_of(stack)
    assert len(resources(found, POOL)) == 1
    checked = only(found, AUTHORIZER)["JwtConfiguration"]
    clients = [stack.resolve(each.user_pool_client_id) for each in (web, phone)]
    assert checked["Audience"] == clients
    assert stack.resolve(pool.user_pool_id) in checked["Issuer"]["Fn::Join"][1]
    assert found["Outputs"]["UserPoolClientId"]["Value"] == clients[0]


def test_an_existing_pool_may_be_known_by_its_id_alone(stack: Stack) -> None:
    pool = cognito.UserPool.from_user_pool_id(stack, "Users", "eu-central-1_abc")
    client = cognito.UserPoolClient.from_user_pool_client_id(stack, "Web", "4711")
    embed(stack, users=Users.of_pool(pool, client))
    checked = only(template_of(stack), AUTHORIZER)["JwtConfiguration"]
    assert checked["Audience"] == ["4711"]
    assert "eu-central-1_abc" in json.dumps(checked["Issuer"])


def test_a_pool_without_a_client_would_let_nobody_in(stack: Stack) -> None:
    with pytest.raises(ValueError, match="at least one client"):
        Users.of_pool(cognito.UserPool(stack, "Users"))


def test_users_of_a_pool_are_named_by_what_they_cannot_choose(stack: Stack) -> None:
    with pytest.raises(StageError, match="'user_claim' must be one of"):
        embed(stack, users=Users.own_pool(claim="email"))


# What else may be chosen


def test_properties_override_those_of_a_stage(stack: Stack) -> None:
    embed(
        stack,
        stage=DEV,
        name="shop-eu",
        retention=Duration.days(7),
        longest_retention=Duration.days(30),
        cors_origins=["https://shop.example.com"],
    )
    found = template_of(stack)
    assert setting(found, "RETENTION_DAYS") == "7"
    assert setting(found, "LONGEST_RETENTION_DAYS") == "30"
    browsers = only(found, "AWS::ApiGatewayV2::Api")["CorsConfiguration"]
    assert browsers["AllowOrigins"] == ["https://shop.example.com"]
    assert kept(found) == {"Delete"}, "as the stage says"
    services = {each["POWERTOOLS_SERVICE_NAME"] for each in variables(found).values()}
    assert {service.rpartition("-")[0] for service in services} == {"fanfold-shop-eu"}


@pytest.mark.parametrize(
    ("policy", "deletion"),
    [
        (RemovalPolicy.DESTROY, "Delete"),
        (RemovalPolicy.RETAIN, "RetainExceptOnCreate"),
        (RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE, "RetainExceptOnCreate"),
    ],
)
def test_the_removal_policy_is_that_of_all_that_holds_data(
    stack: Stack, policy: RemovalPolicy, deletion: str
) -> None:
    embed(stack, removal_policy=policy)
    assert kept(template_of(stack)) == {deletion}


@pytest.mark.parametrize(
    ("properties", "sentence"),
    [
        (
            {"removal_policy": RemovalPolicy.SNAPSHOT},
            "'removal_policy' must be one of DESTROY, RETAIN",
        ),
        ({"retention": Duration.hours(36)}, "'retention' must be a whole number of days"),
        ({"longest_retention": Duration.minutes(1)}, "'longest_retention' must be a whole number"),
        ({"name": "Läden/EU"}, "'name' must be letters, digits and hyphens"),
        ({"stage": PROD}, "alarm_topic="),  # whose alarms nobody would hear
        ({"senders": []}, "'senders' is empty"),  # it would bind nobody
        ({"senders": [Sender("AIDAEXAMPLEOPS", ())]}, "'senders' must be like"),
    ],
)
def test_a_property_that_cannot_be_meant_is_refused(
    stack: Stack, properties: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(StageError, match=sentence):
        embed(stack, **properties)


def test_alarms_go_to_the_topic_of_the_app_which_counts_as_heard(stack: Stack) -> None:
    topic = sns.Topic(stack, "Pager")
    timeline = embed(stack, stage=PROD, alarm_topic=topic)
    found = template_of(stack)
    assert timeline.alarm_topic is topic
    assert len(resources(found, "AWS::SNS::Topic")) == 1
    for alarm in of_type(found, ALARM).values():
        assert alarm["AlarmActions"] == [stack.resolve(topic.topic_arn)]


def test_a_key_of_the_app_encrypts_tables_and_queues_and_every_function_may_use_it(
    stack: Stack,
) -> None:
    key = kms.Key(stack, "Key")
    embed(stack, encryption_key=key)
    found = template_of(stack)
    arn = stack.resolve(key.key_arn)
    for table in of_type(found, TABLE).values():
        assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
        assert table["Replicas"][0]["SSESpecification"] == {"KMSMasterKeyId": arn}
    for queue in of_type(found, QUEUE).values():
        assert queue["KmsMasterKeyId"] == arn
    for function in ("Api", "Timeline", "Plan", "Deliver", "Relate", "Sweep"):
        assert "kms:Decrypt" in allowed(found, f"Timeline{function}FunctionRole")


def test_a_permissions_boundary_bounds_every_role(stack: Stack) -> None:
    boundary = iam.ManagedPolicy.from_managed_policy_name(stack, "Boundary", "developers")
    embed(stack, permissions_boundary=boundary)
    bound = stack.resolve(boundary.managed_policy_arn)
    roles = of_type(template_of(stack), "AWS::IAM::Role").values()
    assert [role["PermissionsBoundary"] for role in roles] == [bound] * 6


def test_the_options_of_tables_are_those_of_the_template(stack: Stack) -> None:
    options = TableOptions(
        point_in_time_recovery=False,
        deletion_protection=True,
        contributor_insights=True,
        max_write_request_units=20_000,
        daily_write_units=1_000_000,
    )
    embed(stack, tables=options)
    found = template_of(stack)
    assert protected(found) == {True}
    tables = of_type(found, TABLE).values()
    for table in tables:
        recovery = table["Replicas"][0]["PointInTimeRecoverySpecification"]
        assert recovery["PointInTimeRecoveryEnabled"] is False
    limits = [each.get("WriteOnDemandThroughputSettings") for each in tables]
    assert limits.count({"MaxWriteRequestUnits": 20_000}) == 2
    assert 1_000_000 in [each["Threshold"] for each in of_type(found, ALARM).values()]


# Who may send to the publish queue


def test_senders_are_bound_to_whom_they_may_act_for(stack: Stack) -> None:
    role = iam.Role(stack, "News", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    senders = [
        Sender.role(role, "news-*", "tv", ref_ids=("news:*", "tv:*")),
        Sender("AIDAEXAMPLEOPS", ("*",)),
    ]
    embed(stack, senders=senders).grant_publish(role)
    found = template_of(stack)
    role_id = next(each for each in resources(found, "AWS::IAM::Role") if each.startswith("News"))
    text = setting(found, "SENDERS")["Fn::Join"][1]
    assert text == [{"Fn::GetAtt": [role_id, "RoleId"]}, "=news-* tv/news:* tv:*,AIDAEXAMPLEOPS=*"]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        # Its letters would be ids, and the last one of `news-*` lets act for everybody.
        (lambda: Sender("AIDAEXAMPLEOPS", "news-*"), r'several texts, such as \("news-\*",\)'),  # type: ignore[arg-type]
        (lambda: Sender("AIDAEXAMPLEOPS", ("ops",), "*"), "several texts, such as"),  # type: ignore[arg-type]
        # A slash would begin its ref_ids.
        (lambda: Sender("AROAEXAMPLE", ("a/b",)), "name ref_ids by"),
        (lambda: Sender("AROAEXAMPLE", ("a",), ("*/*",)), "name ref_ids by"),
        # It would be read as another rule.
        (lambda: Sender("123456789012:a,b", ("*",)), "'senders' must be like"),
        (lambda: Sender("123456789012:a=b", ("*",)), "'senders' must be like"),
    ],
)
def test_a_sender_that_would_be_read_as_something_else_is_refused(
    make: Callable[[], Sender], sentence: str
) -> None:
    with pytest.raises(StageError, match=sentence):
        make()


def test_a_role_whose_unique_id_cdk_does_not_know_is_refused(stack: Stack) -> None:
    role: Any = iam.Role.from_role_arn(stack, "News", "arn:aws:iam::123456789012:role/news")
    with pytest.raises(StageError, match="aws iam get-role"):
        Sender.role(role, "news-*")
