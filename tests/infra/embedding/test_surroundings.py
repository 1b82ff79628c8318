"""What a team asks of all that is deployed, as properties in an app and as values of `-c`."""

import json
import sys
from typing import Any

import pytest
from aws_cdk import Stack, Token
from aws_cdk import aws_apigatewayv2 as gateway
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3

from infra import Domain, Network
from infra.settings.checks import StageError
from infra.settings.context import choose
from tests.infra.foreign import Shop, embed, foreign_stack, part, statements
from tests.infra.template import (
    Template,
    functions,
    made,
    make_app,
    of_type,
    only,
    resources,
    synthesized,
    template_of,
)

FUNCTIONS = ("Api", "Timeline", "Plan", "Deliver", "Relate", "Sweep")
ACCOUNT = "123456789012"
KEY = f"arn:aws:kms:eu-central-1:{ACCOUNT}:key/01234567-89ab-cdef-0123-456789abcdef"
CERTIFICATE = f"arn:aws:acm:eu-central-1:{ACCOUNT}:certificate/0123-4567"
IN_A_VPC = {
    "vpc_id": "vpc-0123abcd",
    "subnet_ids": "subnet-0123abca,subnet-0123abcb",
    "security_group_ids": "sg-0123abcd",
}
BY_IDS = {
    "kms_key": KEY,
    "permissions_boundary": "developers",
    **IN_A_VPC,
    "domain_name": "api.example.com",
    "certificate": CERTIFICATE,
    "default_endpoint": "false",
    "tags": "team=feed,cost-center=47/11",
    "termination_protection": "true",
    "slack_workspace_id": "T0123ABCDEF",
    "slack_channel_id": "C0123ABCDEF",
}


@pytest.fixture
def by_ids() -> Template:
    """The app's own stack with all of it."""
    return synthesized(**BY_IDS)


# Its key and its bounds


def test_services_that_encrypt_by_themselves_may_use_the_apps_key(shop: Shop) -> None:
    arn, found = shop.resolved(shop.key.key_arn), part(shop.template, "Timeline")
    groups = of_type(found, "AWS::Logs::LogGroup").values()
    assert [group["KmsKeyId"] for group in groups] == [arn] * (len(FUNCTIONS) + 1)
    assert only(found, "AWS::SNS::Topic")["KmsMasterKeyId"] == arn
    may = {
        json.dumps(each["Principal"]["Service"]): each
        for each in only(shop.template, "AWS::KMS::Key")["KeyPolicy"]["Statement"]
        if "Service" in each["Principal"]
    }
    logs = next(each for service, each in may.items() if "logs." in service)
    assert "log-group:*" in json.dumps(logs["Condition"]["ArnLike"])
    assert "kms:GenerateDataKey*" in logs["Action"]
    for service in ("cloudwatch.amazonaws.com", "events.amazonaws.com"):
        actions = may[json.dumps(service)]["Action"]
        assert {"kms:Decrypt", "kms:GenerateDataKey*"} <= set(actions)


def test_a_key_of_another_app_is_used_as_it_is(by_ids: Template) -> None:
    assert not of_type(by_ids, "AWS::KMS::Key")
    for table in of_type(by_ids, "AWS::DynamoDB::GlobalTable").values():
        assert table["Replicas"][0]["SSESpecification"] == {"KMSMasterKeyId": KEY}
    for queue in of_type(by_ids, "AWS::SQS::Queue").values():
        assert queue["KmsMasterKeyId"] == KEY
    for function in FUNCTIONS:
        granted = statements(by_ids, f"Fanfold{function}FunctionRole")
        assert "kms:Decrypt" in json.dumps([each for each in granted if each["Resource"] == KEY])


def test_the_boundary_is_that_of_every_role_even_of_those_that_cdk_makes(by_ids: Template) -> None:
    roles = of_type(by_ids, "AWS::IAM::Role").values()
    assert len(roles) == len(FUNCTIONS) + 1  # and that of Slack
    assert all("policy/developers" in json.dumps(each["PermissionsBoundary"]) for each in roles)


# Its network


def test_functions_run_in_the_subnets_that_are_named(by_ids: Template) -> None:
    for function in functions(by_ids).values():
        assert function["VpcConfig"] == {
            "SubnetIds": ["subnet-0123abca", "subnet-0123abcb"],
            "SecurityGroupIds": ["sg-0123abcd"],
        }
    for kind in ("AWS::EC2::SecurityGroup", "AWS::EC2::VPCEndpoint"):
        assert not of_type(by_ids, kind)


def test_lambda_may_attach_them_which_gives_them_no_other_right(by_ids: Template) -> None:
    assert "AWSLambdaVPCAccessExecutionRole" not in json.dumps(by_ids)
    for function in FUNCTIONS:
        granted = statements(by_ids, f"Fanfold{function}FunctionRole")
        actions = {a for each in granted if each["Resource"] == "*" for a in each["Action"]}
        assert "ec2:CreateNetworkInterface" in actions
        assert all(action.startswith("ec2:") for action in actions)


@pytest.fixture(scope="module")
def placed() -> Template:
    """One timeline in a VPC, with an address beside; one with endpoints, and one address alone."""
    stack = foreign_stack()
    bare, led = (ec2.Vpc(stack, name, max_azs=2) for name in ("Bare", "Led"))
    certificate = acm.Certificate.from_certificate_arn(stack, "Certificate", CERTIFICATE)
    news = embed(
        stack,
        "News",
        network=Network(vpc=bare),
        domain=Domain(name="api.example.com", certificate=certificate),
    )
    news.add_outputs()
    assert news.api_url == "https://api.example.com"
    embed(
        stack,
        "Sport",
        network=Network(
            vpc=led,
            subnets=ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS),
            security_groups=[ec2.SecurityGroup(stack, "Group", vpc=led)],
            endpoints=True,
        ),
        domain=Domain(
            name="sport.example.com",
            certificate=certificate,
            mtls=trusted(stack),
            default_endpoint=False,
        ),
    )
    return template_of(stack)


def test_in_a_vpc_functions_share_a_security_group_that_nobody_may_enter(placed: Template) -> None:
    news = part(placed, "News")
    ((group, properties),) = of_type(news, "AWS::EC2::SecurityGroup").items()
    assert "SecurityGroupIngress" not in properties
    entries = of_type(placed, "AWS::EC2::SecurityGroupIngress").values()
    assert not [entry for entry in entries if group in json.dumps(entry)]
    used = [each["VpcConfig"] for each in functions(news).values()]
    assert used == [used[0]] * len(FUNCTIONS)
    assert len(used[0]["SubnetIds"]) == 2


def test_endpoints_lead_to_all_that_functions_call_if_they_are_asked_for(placed: Template) -> None:
    endpoints = of_type(placed, "AWS::EC2::VPCEndpoint").values()
    assert sorted((each["VpcEndpointType"], service_of(each)) for each in endpoints) == [
        ("Gateway", "dynamodb"),
        ("Interface", "lambda"),
        ("Interface", "sqs"),
    ]
    (vpc,) = {each["VpcId"]["Ref"] for each in endpoints}
    assert vpc.startswith("Led")
    for each in endpoints:
        assert each["VpcEndpointType"] == "Gateway" or each["PrivateDnsEnabled"] is True
    entries = of_type(placed, "AWS::EC2::SecurityGroupIngress").values()
    assert len(entries) == 2
    for entry in entries:
        assert (entry["FromPort"], entry["ToPort"]) == (443, 443)
        assert entry["SourceSecurityGroupId"]["Fn::GetAtt"][0].startswith("Group")


def service_of(endpoint: Template) -> str:
    name = endpoint["ServiceName"]
    text = name if isinstance(name, str) else name["Fn::Join"][1][-1]
    return str(text).rpartition(".")[2]


# Its address


def trusted(stack: Stack) -> gateway.MTLSConfig:
    """The certificates that clients must present."""
    return gateway.MTLSConfig(bucket=s3.Bucket(stack, "Trust"), key="cas.pem")


def domain(stack: Stack, name: str = "api.example.com", **properties: Any) -> Domain:
    certificate = acm.Certificate.from_certificate_arn(stack, "Certificate", CERTIFICATE)
    return Domain(name=name, certificate=certificate, **properties)


def test_a_domain_is_the_address_of_the_api(placed: Template) -> None:
    news = part(placed, "News")
    assert placed["Outputs"]["ApiUrl"]["Value"] == "https://api.example.com"
    ((domain_id, named),) = of_type(news, "AWS::ApiGatewayV2::DomainName").items()
    assert named["DomainName"] == "api.example.com"
    (configured,) = named["DomainNameConfigurations"]
    assert configured["CertificateArn"] == CERTIFICATE
    assert configured["SecurityPolicy"] == "TLS_1_2"
    target = {"Fn::GetAtt": [domain_id, "RegionalDomainName"]}
    assert placed["Outputs"]["ApiDomainTarget"]["Value"] == target
    (mapping,) = resources(news, "AWS::ApiGatewayV2::ApiMapping").values()
    (stage_id,) = of_type(news, "AWS::ApiGatewayV2::Stage")
    assert mapping["Properties"]["Stage"] == "$default"
    assert stage_id in mapping["DependsOn"]
    assert only(news, "AWS::ApiGatewayV2::Api")["DisableExecuteApiEndpoint"] is False


def test_a_domain_can_be_the_only_address_and_ask_for_certificates(placed: Template) -> None:
    sport = part(placed, "Sport")
    named = only(sport, "AWS::ApiGatewayV2::DomainName")
    assert "cas.pem" in json.dumps(named["MutualTlsAuthentication"]["TruststoreUri"])
    assert only(sport, "AWS::ApiGatewayV2::Api")["DisableExecuteApiEndpoint"] is True


def test_a_domain_that_asks_for_certificates_must_be_the_only_address(stack: Stack) -> None:
    with pytest.raises(StageError, match="default_endpoint=False"):
        domain(stack, mtls=trusted(stack))


@pytest.mark.parametrize("name", ["https://api.example.com", "API.example.com", "localhost", ""])
def test_an_invalid_domain_name_is_refused(stack: Stack, name: str) -> None:
    with pytest.raises(StageError, match="'domain_name' must be a name such as"):
        domain(stack, name)


def test_the_app_takes_a_domain_by_its_name(by_ids: Template, dev: Template) -> None:
    assert by_ids["Outputs"]["ApiUrl"]["Value"] == "https://api.example.com"
    assert only(by_ids, "AWS::ApiGatewayV2::Api")["DisableExecuteApiEndpoint"] is True
    assert "ApiDomainTarget" not in dev["Outputs"]


# Its tags


def test_tags_are_those_of_the_stack_and_of_every_resource(by_ids: Template) -> None:
    given = {"team": "feed", "cost-center": "47/11"}
    for kind in TAGGED:
        found = of_type(by_ids, kind).values()
        assert found
        assert all(tags_of(each) == given for each in found)
    stack = made(**BY_IDS)
    assert stack.tags.tag_values() == given
    assert stack.termination_protection


TAGGED = (
    "AWS::DynamoDB::GlobalTable",
    "AWS::SQS::Queue",
    "AWS::Lambda::Function",
    "AWS::Lambda::EventSourceMapping",
    "AWS::IAM::Role",
    "AWS::Logs::LogGroup",
    "AWS::SNS::Topic",
    "AWS::CloudWatch::Alarm",
    "AWS::ApiGatewayV2::Api",
    "AWS::Cognito::UserPool",
)


def tags_of(resource: Template) -> dict[str, str]:
    tags: Any = resource.get("Tags", resource.get("UserPoolTags"))
    if tags is None:
        tags = resource["Replicas"][0]["Tags"]
    return tags if isinstance(tags, dict) else {each["Key"]: each["Value"] for each in tags}


# Without it


def test_without_these_settings_the_stack_has_none_of_these_resources(dev: Template) -> None:
    text = json.dumps(dev)
    for word in (
        "KmsKeyId", "PermissionsBoundary", "VpcConfig", "ec2:", "DisableExecuteApi", '"Tags"',
    ):  # fmt: skip
        assert word not in text


def test_on_a_local_engine_its_functions_run_here_without_key_network_and_domain() -> None:
    stack = Stack(make_app(**{"fanfold:local": "true"}), "Shop")
    timeline = embed(
        stack,
        encryption_key=kms.Key.from_key_arn(stack, "Key", KEY),
        network=Network(vpc=ec2.Vpc(stack, "Vpc", max_azs=2)),
        domain=domain(stack),
        permissions_boundary=iam.ManagedPolicy.from_managed_policy_name(stack, "Bound", "devs"),
    )
    assert Token.is_unresolved(timeline.api_url)
    found = template_of(stack)
    runtime = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert {each["Runtime"] for each in functions(part(found, "Timeline")).values()} == {runtime}
    text = json.dumps(found)
    for word in (KEY, "VpcConfig", "AWS::ApiGatewayV2::DomainName"):
        assert word not in text


@pytest.mark.parametrize(
    ("context", "sentence"),
    [
        ({"kms_key": "alias/mine"}, "'kms_key' must be the ARN of a key, not an alias"),
        ({"permissions_boundary": "a b"}, "'permissions_boundary' must be the name or the ARN"),
        ({"vpc_id": "vpc-0123abcd"}, "need all of 'vpc_id', 'subnet_ids', 'security_group_ids'"),
        ({"subnet_ids": "subnet-0123abca"}, "need all of 'vpc_id'"),
        ({**IN_A_VPC, "vpc_id": "mine"}, "'vpc_id' must be an id such as vpc-0123abcd"),
        (
            {**IN_A_VPC, "subnet_ids": "subnet-0123abca,b"},
            "'subnet_ids' must be ids such as subnet-",
        ),
        ({**IN_A_VPC, "security_group_ids": "web"}, "'security_group_ids' must be ids such as sg-"),
        ({"domain_name": "api.example.com"}, "Give 'domain_name' and 'certificate' both"),
        ({"certificate": CERTIFICATE}, "Give 'domain_name' and 'certificate' both"),
        (
            {"domain_name": "https://api.example.com", "certificate": CERTIFICATE},
            "'domain_name' must be a name such as api.example.com",
        ),
        (
            {"domain_name": "api.example.com", "certificate": "mine"},
            "'certificate' must be the ARN of a certificate",
        ),
        ({"default_endpoint": "false"}, "the only one: leave 'default_endpoint' out"),
        ({"tags": "team"}, "'tags' must be like team=feed"),
        ({"tags": "AWS:team=feed"}, "names do not begin with aws:"),
        ({"tags": "a=1,A=2"}, "'tags' must name each tag once"),
        ({"tags": ",".join(f"t{n}=1" for n in range(41))}, "and at most 40"),
        (
            {"termination_protection": "true", "first_deploy": "true"},
            "'first_deploy' is for a deploy without protections",
        ),
    ],
)
def test_what_cannot_be_deployed_is_refused_with_a_sentence(
    context: dict[str, str], sentence: str
) -> None:
    with pytest.raises(StageError, match=sentence):
        choose(context)
