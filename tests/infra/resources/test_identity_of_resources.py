"""Logical ids and outputs that must not change: a new id is a new, empty resource."""

import json
from pathlib import Path

from tests.infra.template import Template, resources

PINNED = Path(__file__).parents[1] / "pinned.json"
TABLE, QUEUE = "AWS::DynamoDB::GlobalTable", "AWS::SQS::Queue"
KEPT_TYPES = ("AWS::Cognito::UserPool", "AWS::Cognito::UserPoolClient", TABLE, QUEUE)


def test_resources_with_data_keep_their_logical_ids_and_outputs_their_names(dev: Template) -> None:
    kept = {kind: sorted(resources(dev, kind)) for kind in KEPT_TYPES}
    assert {"outputs": sorted(dev["Outputs"]), **kept} == json.loads(PINNED.read_text())


def test_stages_share_the_logical_ids_of_tables_and_queues(dev: Template, prod: Template) -> None:
    for kind in (TABLE, QUEUE):
        assert resources(dev, kind).keys() == resources(prod, kind).keys()


def test_the_api_url_has_no_slash_at_its_end(dev: Template) -> None:
    """It is the address of the API itself."""
    assert dev["Outputs"]["ApiUrl"]["Value"]["Fn::GetAtt"][1] == "ApiEndpoint"
