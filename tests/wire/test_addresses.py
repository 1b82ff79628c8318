"""The environment: endpoints, regions, credentials and the CA bundle."""

from __future__ import annotations

from collections.abc import Callable

import certifi
import pytest
from botocore.endpoint_provider import EndpointProvider
from botocore.loaders import Loader

from fanfold.aws.connections import DYNAMODB, SQS, Connections, Service
from fanfold.aws.curl import Client
from fanfold.aws.environment import (
    UNSUPPORTED,
    Credentials,
    Unconfigured,
    ca_bundle,
    endpoint,
    region,
)
from fanfold.aws.retries import is_transient
from tests.wire.conftest import environment
from tests.wire.server import Server

SERVICES = pytest.mark.parametrize("service", [DYNAMODB, SQS], ids=lambda each: each.name)
OWN = "http://127.0.0.1:4566"


def addresses_by_botocore(service: Service) -> dict[str, str]:
    """The endpoint of every region that Fanfold can be deployed to."""
    loader = Loader()
    partitions = loader.load_data("partitions")
    rules = loader.load_service_model(service.name, "endpoint-rule-set-1")
    provider = EndpointProvider(rules, partitions)
    regions = [
        name
        for partition in partitions["partitions"]
        if partition["id"] in ("aws", "aws-cn", "aws-us-gov", "aws-eusc")
        for name in partition["regions"]
        if not name.endswith("-global")
    ]
    return {
        name: provider.resolve_endpoint(Region=name, UseFIPS=False, UseDualStack=False).url
        for name in regions
    }


@SERVICES
def test_every_region_has_the_endpoint_of_botocore(service: Service) -> None:
    known = addresses_by_botocore(service)
    assert {"us-east-1", "cn-north-1", "us-gov-west-1", "eusc-de-east-1"} <= known.keys()
    assert {name: endpoint(service.name, {"AWS_REGION": name}) for name in known} == known


def test_an_endpoint_variable_needs_no_region_and_an_empty_one_is_ignored() -> None:
    assert endpoint(SQS.name, {"AWS_ENDPOINT_URL_SQS": OWN}) == OWN
    env = {"AWS_ENDPOINT_URL_SQS": "", "AWS_ENDPOINT_URL": "", "AWS_REGION": "eu-west-1"}
    assert endpoint(SQS.name, env) == "https://sqs.eu-west-1.amazonaws.com"


def test_aws_default_region_takes_precedence() -> None:
    assert region({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}) == "us-east-1"
    assert region({"AWS_REGION": "us-east-1"}) == "us-east-1"


def test_an_empty_region_is_refused() -> None:
    with pytest.raises(Unconfigured, match="AWS_REGION"):
        endpoint(DYNAMODB.name, {"AWS_REGION": ""})


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_an_unsupported_kind_of_endpoint_is_refused_with_the_alternative(name: str) -> None:
    for value in ("true", "True"):
        with pytest.raises(Unconfigured, match=f"{name} .*transport=boto3"):
            endpoint(DYNAMODB.name, {"AWS_REGION": "us-east-1", name: value})
    endpoint(DYNAMODB.name, {"AWS_REGION": "us-east-1", name: "false"})


@pytest.mark.parametrize(
    "env",
    [
        {"AWS_ACCESS_KEY_ID": "key"},
        {"AWS_SECRET_ACCESS_KEY": "secret"},
        {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
    ],
)
def test_missing_credentials_are_refused(env: dict[str, str]) -> None:
    with pytest.raises(Unconfigured, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        Credentials.from_env(env)


def test_credentials_may_have_a_token() -> None:
    env = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert Credentials.from_env(env) == Credentials("key", "secret")
    env["AWS_SESSION_TOKEN"] = "token"
    assert Credentials.from_env(env) == Credentials("key", "secret", "token")


def test_servers_are_checked_against_the_given_ca_bundle_or_certifis() -> None:
    assert ca_bundle({"AWS_CA_BUNDLE": "/own.pem"}) == "/own.pem"
    assert ca_bundle({}) == certifi.where()


@pytest.mark.network
@pytest.mark.parametrize("lacks", ["AWS_REGION", "AWS_ACCESS_KEY_ID"])
def test_an_unconfigured_call_is_neither_sent_nor_retried(server: Server, lacks: str) -> None:
    env = environment(server.url)
    kept = env.pop(lacks)
    client = Client(Connections(DYNAMODB, env))
    with pytest.raises(Unconfigured, match=lacks) as caught:
        client.get_item(TableName="Posts")
    assert not is_transient(caught.value)
    assert server.calls == []
    env[lacks] = kept
    assert client.get_item(TableName="Posts") == {}


@pytest.mark.network
def test_calls_go_to_the_endpoint_of_the_environment(serve: Callable[..., Server]) -> None:
    tables, others = serve(), serve()
    env = environment(others.url, AWS_ENDPOINT_URL_DYNAMODB=tables.url)
    Client(Connections(DYNAMODB, env)).get_item()
    Client(Connections(SQS, env)).send_message()
    assert [call.header("x-amz-target") for call in tables.calls] == ["DynamoDB_20120810.GetItem"]
    assert [call.header("x-amz-target") for call in others.calls] == ["AmazonSQS.SendMessage"]


@pytest.mark.parametrize("where", ["us-iso-east-1", "us-isob-east-1", "eu-isoe-west-1"])
def test_a_region_without_a_known_endpoint_is_refused(where: str) -> None:
    with pytest.raises(Unconfigured, match="transport=boto3"):
        endpoint(DYNAMODB.name, {"AWS_REGION": where})
