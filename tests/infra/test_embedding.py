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
from tests.infra.foreign import allowed, embed, template_of
from tests.infra.template import functions, of_type, resources, variables

TABLE, QUEUE = "AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue"
AUTHORIZER = "AWS::ApiGatewayV2::Authorizer"


def test_a_timeline_keeps_its_data_unprotected_unless_it_is_told_otherwise(stack: Stack) -> None:
    embed(stack)
    found = template_of(stack)
    for kind in (TABLE, QUEUE, "AWS::Cognito::UserPool"):
        for resource in resources(found, kind).values():
            assert resource["DeletionPolicy"] == "RetainExceptOnCreate"
    for table in of_type(found, TABLE).values():
        assert table["Replicas"][0]["DeletionProtectionEnabled"] is False


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
    found = template_of(stack)
    for kind in (TABLE, QUEUE, "AWS::Cognito::UserPool", "AWS::Logs::LogGroup"):
        assert {each["DeletionPolicy"] for each in resources(found, kind).values()} == {deletion}


def test_a_table_cannot_be_restored_from_a_snapshot_so_that_policy_is_refused(
    stack: Stack,
) -> None:
    with pytest.raises(StageError, match="'removal_policy' must be one of DESTROY, RETAIN"):
        embed(stack, removal_policy=RemovalPolicy.SNAPSHOT)


def test_somebody_must_say_whose_timelines_they_are(stack: Stack) -> None:
    with pytest.raises(StageError, match="does not say who its users are"):
        FollowTimeline(stack, "Timeline")


def test_users_of_an_issuer_need_no_pool(stack: Stack) -> None:
    embed(stack, users=Users.of_issuer("https://login.example.com", "shop", claim="email"))
    found = template_of(stack)
    (authorizer,) = of_type(found, AUTHORIZER).values()
    assert authorizer["JwtConfiguration"] == {
        "Audience": ["shop"],
        "Issuer": "https://login.example.com",
    }
    assert not resources(found, "AWS::Cognito::UserPool")
    assert {each["USER_CLAIM"] for each in variables(found).values()} == {"email"}


def test_users_of_an_existing_pool_come_by_its_clients(stack: Stack) -> None:
    pool = cognito.UserPool(stack, "Users")
    web, phone = pool.add_client("Web"), pool.add_client("Phone")
    timeline = embed(stack, users=Users.of_pool(pool, web, phone))
    timeline.add_outputs()
    found = template_of(stack)
    assert len(resources(found, "AWS::Cognito::UserPool")) == 1
    (authorizer,) = of_type(found, AUTHORIZER).values()
    clients = [stack.resolve(each.user_pool_client_id) for each in (web, phone)]
    assert authorizer["JwtConfiguration"]["Audience"] == clients
    assert (
        stack.resolve(pool.user_pool_id) in authorizer["JwtConfiguration"]["Issuer"]["Fn::Join"][1]
    )
    assert found["Outputs"]["UserPoolClientId"]["Value"] == clients[0]


def test_an_existing_pool_may_be_known_by_its_id_alone(stack: Stack) -> None:
    pool = cognito.UserPool.from_user_pool_id(stack, "Users", "eu-central-1_abc")
    client = cognito.UserPoolClient.from_user_pool_client_id(stack, "Web", "4711")
    embed(stack, users=Users.of_pool(pool, client))
    (authorizer,) = of_type(template_of(stack), AUTHORIZER).values()
    assert authorizer["JwtConfiguration"]["Audience"] == ["4711"]
    assert "eu-central-1_abc" in json.dumps(authorizer["JwtConfiguration"]["Issuer"])


def test_a_pool_without_a_client_would_let_nobody_in(stack: Stack) -> None:
    with pytest.raises(ValueError, match="at least one client"):
        Users.of_pool(cognito.UserPool(stack, "Users"))


def test_users_of_a_pool_are_named_by_what_they_cannot_choose(stack: Stack) -> None:
    with pytest.raises(StageError, match="'user_claim' must be one of"):
        embed(stack, users=Users.own_pool(claim="email"))


def test_the_retention_is_in_whole_days(stack: Stack) -> None:
    embed(stack, retention=Duration.days(7))
    assert {each["RETENTION_DAYS"] for each in variables(template_of(stack)).values()} == {"7"}
    for wrong in (Duration.hours(36), Duration.minutes(1)):
        for name in ("retention", "longest_retention"):
            with pytest.raises(StageError, match=f"'{name}' must be a whole number of days"):
                embed(stack, f"{name}{wrong.to_minutes()}", **{name: wrong})


def test_how_long_entries_ever_lived_is_remembered(stack: Stack) -> None:
    embed(stack, retention=Duration.days(7), longest_retention=Duration.days(30))
    for each in variables(template_of(stack)).values():
        assert (each["RETENTION_DAYS"], each["LONGEST_RETENTION_DAYS"]) == ("7", "30")


def test_the_name_is_that_of_logs_and_metrics(stack: Stack) -> None:
    embed(stack, name="shop-eu")
    services = {each["POWERTOOLS_SERVICE_NAME"] for each in variables(template_of(stack)).values()}
    assert {service.rpartition("-")[0] for service in services} == {"fanfold-shop-eu"}


def test_a_name_that_no_metric_can_carry_is_refused(stack: Stack) -> None:
    with pytest.raises(StageError, match="'name' must be letters, digits and hyphens"):
        embed(stack, name="Läden/EU")


def test_alarms_go_to_the_topic_of_the_app(stack: Stack) -> None:
    topic = sns.Topic(stack, "Pager")
    timeline = embed(stack, alarm_topic=topic)
    found = template_of(stack)
    assert timeline.alarm_topic is topic
    assert len(resources(found, "AWS::SNS::Topic")) == 1
    for alarm in of_type(found, "AWS::CloudWatch::Alarm").values():
        assert alarm["AlarmActions"] == [stack.resolve(topic.topic_arn)]


def test_a_stage_whose_alarms_nobody_hears_may_be_given_a_topic(stack: Stack) -> None:
    with pytest.raises(StageError, match="alarm_topic="):
        embed(stack, "Deaf", stage=PROD)
    embed(stack, "Heard", stage=PROD, alarm_topic=sns.Topic(stack, "Pager"))


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


def test_without_a_key_nothing_names_one(stack: Stack) -> None:
    embed(stack)
    assert "kms" not in json.dumps(template_of(stack)).lower().replace("sqsmanaged", "")


def test_a_permissions_boundary_bounds_every_role(stack: Stack) -> None:
    boundary = iam.ManagedPolicy.from_managed_policy_name(stack, "Boundary", "developers")
    embed(stack, permissions_boundary=boundary)
    bound = stack.resolve(boundary.managed_policy_arn)
    roles = of_type(template_of(stack), "AWS::IAM::Role").values()
    assert len(roles) == 6
    for role in roles:
        assert role["PermissionsBoundary"] == bound


def test_the_options_of_tables_are_those_of_the_template(stack: Stack) -> None:
    options = TableOptions(
        point_in_time_recovery=False,
        deletion_protection=True,
        contributor_insights=True,
        max_write_request_units=20_000,
        daily_write_units=1_000_000,
    )
    embed(stack, tables=options)
    found = of_type(template_of(stack), TABLE)
    for table in found.values():
        (replica,) = table["Replicas"]
        assert replica["DeletionProtectionEnabled"] is True
        recovery = replica["PointInTimeRecoverySpecification"]
        assert recovery["PointInTimeRecoveryEnabled"] is False
    limits = [
        table["WriteOnDemandThroughputSettings"]["MaxWriteRequestUnits"]
        for table in found.values()
        if "WriteOnDemandThroughputSettings" in table
    ]
    assert limits == [20_000, 20_000]
    thresholds = [
        each["Threshold"] for each in of_type(template_of(stack), "AWS::CloudWatch::Alarm").values()
    ]
    assert 1_000_000 in thresholds


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
    groups = [
        json.dumps(group["LogGroupName"])
        for group in of_type(found, "AWS::Logs::LogGroup").values()
        if "LogGroupName" in group
    ]
    assert len(groups) == len(set(groups)) == 2


def test_properties_override_those_of_a_stage(stack: Stack) -> None:
    embed(stack, stage=DEV, retention=Duration.days(3), cors_origins=["https://shop.example.com"])
    found = template_of(stack)
    assert {each["RETENTION_DAYS"] for each in variables(found).values()} == {"3"}
    (api,) = of_type(found, "AWS::ApiGatewayV2::Api").values()
    assert api["CorsConfiguration"]["AllowOrigins"] == ["https://shop.example.com"]
    for resource in resources(found, TABLE).values():
        assert resource["DeletionPolicy"] == "Delete"


def test_on_a_local_engine_the_functions_run_on_this_machine(
    make_app: Callable[..., App],
) -> None:
    for is_local in ("true", "false"):
        stack = Stack(make_app(**{"fanfold:local": is_local}), "Shop")
        embed(stack)
        runtimes = {each["Runtime"] for each in functions(template_of(stack)).values()}
        assert (runtimes == {"python3.14"}) is (is_local == "false")


def test_senders_are_bound_to_whom_they_may_act_for(stack: Stack) -> None:
    role = iam.Role(stack, "News", assumed_by=iam.ServicePrincipal("ecs-tasks.amazonaws.com"))
    senders = [
        Sender.role(role, "news-*", "tv", ref_ids=("news:*", "tv:*")),
        Sender("AIDAEXAMPLEOPS", ("*",)),
    ]
    embed(stack, senders=senders).grant_publish(role)
    found = template_of(stack)
    role_id = next(each for each in resources(found, "AWS::IAM::Role") if each.startswith("News"))
    ((*text,),) = [variables(found)["plan"]["SENDERS"]["Fn::Join"][1]]
    assert text == [{"Fn::GetAtt": [role_id, "RoleId"]}, "=news-* tv/news:* tv:*,AIDAEXAMPLEOPS=*"]


def test_a_sender_that_may_act_for_nobody_is_refused(stack: Stack) -> None:
    with pytest.raises(StageError, match="'senders' must be like"):
        embed(stack, senders=[Sender("AIDAEXAMPLEOPS", ())])


@pytest.mark.parametrize("ids", ["*", "news-*", ""])
def test_one_text_in_place_of_a_sender_s_ids_is_refused(ids: Any) -> None:
    """Its letters would be ids, and the last one of `news-*` lets act for everybody."""
    with pytest.raises(StageError, match='several texts, such as \\("news-\\*",\\)'):
        Sender("AIDAEXAMPLEOPS", ids)
    with pytest.raises(StageError, match='several texts, such as \\("news-\\*",\\)'):
        Sender("AIDAEXAMPLEOPS", ("ops",), ids)


@pytest.mark.parametrize(
    "ids", [{"publishers": ("a/b",)}, {"publishers": ("a",), "ref_ids": ("*/*",)}]
)
def test_no_id_of_a_sender_has_a_slash_which_would_begin_its_ref_ids(ids: Any) -> None:
    with pytest.raises(StageError, match="name ref_ids by"):
        Sender("AROAEXAMPLE", **ids)


def test_senders_without_any_are_refused_as_they_would_bind_nobody(stack: Stack) -> None:
    with pytest.raises(StageError, match="'senders' is empty"):
        embed(stack, senders=[])


@pytest.mark.parametrize("sender", ["123456789012:a,b", "123456789012:a=b"])
def test_a_sender_whose_name_would_be_read_as_another_rule_is_refused(sender: str) -> None:
    with pytest.raises(StageError, match="'senders' must be like"):
        Sender(sender, ("*",))


def test_a_role_whose_unique_id_cdk_does_not_know_is_refused(stack: Stack) -> None:
    role: Any = iam.Role.from_role_arn(stack, "News", "arn:aws:iam::123456789012:role/news")
    with pytest.raises(StageError, match="aws iam get-role"):
        Sender.role(role, "news-*")
