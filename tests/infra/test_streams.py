"""Streams, for other systems: off unless asked for, and what their consumers are granted."""

import json

import pytest
from aws_cdk import Stack
from aws_cdk import aws_kms as kms

from infra import StageError, TableOptions
from tests.infra.foreign import allowed, embed, statements
from tests.infra.template import Template, of_type, output_id, synthesized, template_of
from tests.infra.test_grants import client_function

TABLE = "AWS::DynamoDB::GlobalTable"


def streamed(template: Template) -> dict[str, Template]:
    """How each table with a stream is streamed."""
    found = of_type(template, TABLE).items()
    return {
        id_: each["StreamSpecification"] for id_, each in found if "StreamSpecification" in each
    }


def test_nothing_is_streamed_unless_asked_for(template: Template) -> None:
    assert streamed(template) == {}
    assert not [output for output in template["Outputs"] if "Stream" in output]


def test_entries_and_posts_are_streamed_with_what_they_were_before_and_no_table_is_replaced(
    dev: Template,
) -> None:
    found = synthesized(streams="true")
    tables = {name: output_id(found, f"{name}Table") for name in ("Timelines", "Posts")}
    both = {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert streamed(found) == dict.fromkeys(tables.values(), both)
    for name, id_ in tables.items():
        arn = found["Outputs"][f"{name}StreamArn"]["Value"]
        assert arn == {"Fn::GetAtt": [id_, "StreamArn"]}
    assert of_type(found, TABLE).keys() == of_type(dev, TABLE).keys()


def test_a_consumer_may_read_both_streams_and_no_table_and_decrypt(stack: Stack) -> None:
    key = kms.Key(stack, "Key")
    timeline = embed(stack, tables=TableOptions(streams=True), encryption_key=key)
    timeline.grant_streams(client_function(stack))
    found = template_of(stack)
    assert {each for each in allowed(found, "Reader") if each.startswith("dynamodb:")} == {
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
    }
    assert "kms:Decrypt" in allowed(found, "Reader")
    granted = statements(found, "Reader")
    on = json.dumps([each["Resource"] for each in granted if "ListStreams" not in str(each)])
    for table in (timeline.timelines_table, timeline.posts_table):
        assert json.dumps(stack.resolve(table.table_stream_arn)) in on


def test_without_streams_there_is_nothing_to_grant(stack: Stack) -> None:
    with pytest.raises(StageError, match="tables=TableOptions"):
        embed(stack).grant_streams(client_function(stack))
