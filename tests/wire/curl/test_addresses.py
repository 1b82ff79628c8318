"""The environment: endpoints, regions, credentials and the CA bundle."""

from __future__ import annotations

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


def test_variables_of_endpoints_and_authorities_go_first_unless_they_are_empty() -> None:
    for name in ("AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"):
        assert endpoint(SQS.name, {name: OWN}) == OWN
    assert (
        endpoint(SQS.name, {"AWS_ENDPOINT_URL": "http://other", "AWS_ENDPOINT_URL_SQS": OWN}) == OWN
    )
    env = {"AWS_ENDPOINT_URL_SQS": "", "AWS_ENDPOINT_URL": "", "AWS_REGION": "eu-west-1"}
    assert endpoint(SQS.name, env) == "https://sqs.eu-west-1.amazonaws.com"
    assert region({"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-1"}) == "us-east-1"
    assert ca_bundle({"AWS_CA_BUNDLE": "/own.pem"}) == "/own.pem"
    assert ca_bundle({}) == certifi.where()


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"AWS_REGION": ""}, "AWS_REGION"),
        ({"AWS_REGION": "us-iso-east-1"}, "transport=boto3"),
        ({"AWS_REGION": "us-isob-east-1"}, "transport=boto3"),
        ({"AWS_REGION": "eu-isoe-west-1"}, "transport=boto3"),
        *(
            ({"AWS_REGION": "us-east-1", name: value}, f"{name} .*transport=boto3")
            for name in UNSUPPORTED
            for value in ("true", "True")
        ),
    ],
    ids=str,
)
def test_an_endpoint_that_is_not_known_is_refused_with_the_alternative(
    env: dict[str, str], says: str
) -> None:
    with pytest.raises(Unconfigured, match=says):
        endpoint(DYNAMODB.name, env)
    sound = {name: "false" for name in env if name in UNSUPPORTED}
    assert endpoint(DYNAMODB.name, {**sound, "AWS_REGION": "us-east-1"})


def test_credentials_have_a_key_and_a_secret_and_perhaps_a_token() -> None:
    env = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    assert Credentials.from_env(env) == Credentials("key", "secret")
    with_token = {**env, "AWS_SESSION_TOKEN": "token"}
    assert Credentials.from_env(with_token) == Credentials("key", "secret", "token")
    for name in env:
        with pytest.raises(Unconfigured, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
            Credentials.from_env({**env, name: ""})


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
