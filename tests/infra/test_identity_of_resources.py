"""Logical ids and outputs that must not change: a new id is a new, empty resource."""

import json
from pathlib import Path

from tests.infra.template import Template, resources

PINNED = Path(__file__).with_name("pinned.json")
KEPT_TYPES = (
    "AWS::Cognito::UserPool",
    "AWS::Cognito::UserPoolClient",
    "AWS::DynamoDB::GlobalTable",
    "AWS::SQS::Queue",
)


def identities(template: Template) -> dict[str, list[str]]:
    return {
        "outputs": sorted(template["Outputs"]),
        **{kind: sorted(resources(template, kind)) for kind in KEPT_TYPES},
    }


def test_resources_with_data_keep_their_logical_ids_and_outputs_their_names(dev: Template) -> None:
    assert identities(dev) == json.loads(PINNED.read_text())


def test_stages_share_the_logical_ids_of_tables_and_queues(dev: Template, prod: Template) -> None:
    for kind in ("AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue"):
        assert identities(dev)[kind] == identities(prod)[kind]


def test_the_api_url_has_no_slash_at_its_end(dev: Template) -> None:
    match dev["Outputs"]["ApiUrl"]["Value"]:
        case {"Fn::GetAtt": [_, "ApiEndpoint"]}:
            pass
        case other:
            raise AssertionError(f"Not the address of the API itself: {other!r}")
