"""`FollowTimeline` in somebody's app: what each of its properties does to the template."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from aws_cdk import Duration, RemovalPolicy, Stack
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns

from fanfold import names
from infra import DEV, PROD, FollowTimeline, Sender, StageError, Users
from infra.embedding.properties import Properties
from tests.infra.foreign import Shop, allowed, embed, foreign_stack, part
from tests.infra.template import Template, of_type, only, resources, setting, template_of

TABLE, QUEUE, LOGS = "AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue", "AWS::Logs::LogGroup"
POOL, AUTHORIZER = "AWS::Cognito::UserPool", "AWS::ApiGatewayV2::Authorizer"
ALARM, FUNCTION = "AWS::CloudWatch::Alarm", "AWS::Lambda::Function"


@dataclass(frozen=True)
class Mall:
    """One stack with three timelines, whose users come from three places."""

    stack: Stack
    clients: list[cognito.UserPoolClient]
    topic: sns.Topic
    sport: FollowTimeline
    template: Template


@pytest.fixture(scope="module")
def mall() -> Mall:
    stack = foreign_stack()
    pool, topic = cognito.UserPool(stack, "Users"), sns.Topic(stack, "Pager")
    clients = [pool.add_client(name) for name in ("Web", "Phone")]
    embed(stack, "News")
    embed(stack, "Offers", users=Users.of_pool(pool, *clients)).add_outputs()
    by_id = cognito.UserPool.from_user_pool_id(stack, "Known", "eu-central-1_abc")
    client = cognito.UserPoolClient.from_user_pool_client_id(stack, "Client", "4711")
    # Nobody would hear the alarms of this stage, but for the topic.
    users = Users.of_pool(by_id, client)
    sport = embed(stack, "Sport", users=users, stage=PROD, alarm_topic=topic)
    return Mall(stack, clients, topic, sport, template_of(stack))


def kept(template: Template) -> set[str]:
    """What becomes of all that holds data when it leaves the stack."""
    kinds = (TABLE, QUEUE, POOL, LOGS)
    return {each["DeletionPolicy"] for kind in kinds for each in resources(template, kind).values()}


def protected(template: Template) -> set[bool]:
    tables = of_type(template, TABLE).values()
    return {table["Replicas"][0]["DeletionProtectionEnabled"] for table in tables}


def test_a_timeline_keeps_its_data_unprotected_and_with_no_key(mall: Mall) -> None:
    plain = part(mall.template, "News")
    assert kept(plain) == {"RetainExceptOnCreate"}
    assert protected(plain) == {False}
    assert "kms" not in json.dumps(plain).lower().replace("sqsmanaged", "")
    assert {each["Runtime"] for each in of_type(plain, FUNCTION).values()} == {"python3.14"}


def test_several_timelines_live_in_one_stack(mall: Mall) -> None:
    assert len(resources(mall.template, TABLE)) == 3 * len(names.TABLES)
    functions = of_type(mall.template, FUNCTION).values()
    services = {
        each["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        for each in functions
        if each["Handler"].startswith("functions.")
    }
    assert len(services) == 3 * len(names.FUNCTIONS)
    groups = of_type(mall.template, LOGS).values()
    named = [json.dumps(each["LogGroupName"]) for each in groups if "LogGroupName" in each]
    assert len(set(named)) == len(named) == 3


# Its users


def test_somebody_must_say_whose_timelines_they_are(stack: Stack) -> None:
    with pytest.raises(StageError, match="does not say who its users are"):
        FollowTimeline(stack, "Timeline")


def test_users_of_an_issuer_need_no_pool(shop: Shop) -> None:
    assert only(shop.template, AUTHORIZER)["JwtConfiguration"] == {
        "Audience": ["shop"],
        "Issuer": "https://login.example.com",
    }
    assert not resources(shop.template, POOL)
    assert setting(part(shop.template, "Timeline"), "USER_CLAIM") == "email"


def test_users_of_an_existing_pool_come_by_its_clients(mall: Mall) -> None:
    offers, sport = (
        only(part(mall.template, name), AUTHORIZER)["JwtConfiguration"]
        for name in ("Offers", "Sport")
    )
    clients = [mall.stack.resolve(each.user_pool_client_id) for each in mall.clients]
    assert offers["Audience"] == clients
    assert mall.template["Outputs"]["UserPoolClientId"]["Value"] == clients[0]
    assert '{"Ref": "Users' in json.dumps(offers["Issuer"])
    assert sport["Audience"] == ["4711"]
    assert "eu-central-1_abc" in json.dumps(sport["Issuer"]), "known by its id alone"


def test_a_pool_without_a_client_would_let_nobody_in(stack: Stack) -> None:
    with pytest.raises(ValueError, match="at least one client"):
        Users.of_pool(cognito.UserPool(stack, "Users"))


def test_users_of_a_pool_are_named_by_what_they_cannot_choose(stack: Stack) -> None:
    with pytest.raises(StageError, match="'user_claim' must be one of"):
        embed(stack, users=Users.own_pool(claim="email"))


# What else may be chosen


def test_properties_override_those_of_a_stage(shop: Shop) -> None:
    found = part(shop.template, "Timeline")
    assert setting(found, "RETENTION_DAYS") == "7"
    assert setting(found, "LONGEST_RETENTION_DAYS") == "30"
    browsers = only(found, "AWS::ApiGatewayV2::Api")["CorsConfiguration"]
    assert browsers["AllowOrigins"] == ["https://shop.example.com"]
    assert kept(found) == {"RetainExceptOnCreate"}
    for function in of_type(found, FUNCTION).values():
        service = function["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"]
        assert service.rpartition("-")[0] == "fanfold-shop-eu"
    for queue in of_type(found, QUEUE).values():
        assert queue["Tags"] == [{"Key": "team", "Value": "feed"}]


@pytest.mark.parametrize(
    ("policy", "is_kept"),
    [
        (None, False),  # as the stage says
        (RemovalPolicy.DESTROY, False),
        (RemovalPolicy.RETAIN, True),
        (RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE, True),
    ],
)
def test_the_removal_policy_is_that_of_all_that_holds_data(
    policy: RemovalPolicy | None, is_kept: bool
) -> None:
    assert Properties(removal_policy=policy).applied_to(DEV).keep_data is is_kept


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


def test_alarms_go_to_the_topic_of_the_app_which_counts_as_heard(mall: Mall) -> None:
    assert mall.sport.alarm_topic is mall.topic
    found = part(mall.template, "Sport")
    assert not resources(found, "AWS::SNS::Topic")
    for alarm in of_type(found, ALARM).values():
        assert alarm["AlarmActions"] == [mall.stack.resolve(mall.topic.topic_arn)]


def test_a_key_of_the_app_encrypts_tables_and_queues_and_every_function_may_use_it(
    shop: Shop,
) -> None:
    arn = shop.resolved(shop.key.key_arn)
    for table in of_type(shop.template, TABLE).values():
        assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
        assert table["Replicas"][0]["SSESpecification"] == {"KMSMasterKeyId": arn}
    for queue in of_type(shop.template, QUEUE).values():
        assert queue["KmsMasterKeyId"] == arn
    for function in ("Api", "Timeline", "Plan", "Deliver", "Relate", "Sweep"):
        assert "kms:Decrypt" in allowed(shop.template, f"Timeline{function}FunctionRole")


def test_a_permissions_boundary_bounds_every_role(shop: Shop) -> None:
    roles = of_type(part(shop.template, "Timeline"), "AWS::IAM::Role").values()
    bound = shop.resolved(shop.boundary.managed_policy_arn)
    assert [role["PermissionsBoundary"] for role in roles] == [bound] * 6


def test_the_options_of_tables_are_those_of_the_template(shop: Shop) -> None:
    assert protected(shop.template) == {True}
    tables = of_type(shop.template, TABLE).values()
    for table in tables:
        recovery = table["Replicas"][0]["PointInTimeRecoverySpecification"]
        assert recovery["PointInTimeRecoveryEnabled"] is False
    limits = [each.get("WriteOnDemandThroughputSettings") for each in tables]
    assert limits.count({"MaxWriteRequestUnits": 20_000}) == 2
    assert 1_000_000 in [each["Threshold"] for each in of_type(shop.template, ALARM).values()]


def test_without_streams_there_is_nothing_to_grant(mall: Mall) -> None:
    with pytest.raises(StageError, match="tables=TableOptions"):
        mall.sport.grant_streams(iam.AccountRootPrincipal())


# Who may send to the publish queue


def test_senders_are_bound_to_whom_they_may_act_for(shop: Shop) -> None:
    role = next(each for each in resources(shop.template, "AWS::IAM::Role") if "News" in each)
    text = setting(part(shop.template, "Timeline"), "SENDERS")["Fn::Join"][1]
    assert text == [{"Fn::GetAtt": [role, "RoleId"]}, "=news-* tv/news:* tv:*,AIDAEXAMPLEOPS=*"]


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
