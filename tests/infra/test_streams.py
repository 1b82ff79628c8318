"""Streams, for other systems: off unless asked for, and what their consumers are granted."""

import json
from collections.abc import Callable

import pytest
from aws_cdk import Stack
from aws_cdk import aws_kms as kms

from infra import StageError, TableOptions
from tests.infra.foreign import embed, statements, template_of
from tests.infra.template import Template, of_type, output_id, resources
from tests.infra.test_grants import client_function

TABLE = "AWS::DynamoDB::GlobalTable"
BOTH = {"StreamViewType": "NEW_AND_OLD_IMAGES"}
STREAMED = TableOptions(streams=True)


def test_nothing_is_streamed_unless_asked_for(template: Template) -> None:
    for table in of_type(template, TABLE).values():
        assert "StreamSpecification" not in table
    assert not [output for output in template["Outputs"] if "Stream" in output]


def test_entries_and_posts_are_streamed_with_what_they_were_before(
    synthesize: Callable[..., Template],
) -> None:
    found = synthesize(streams="true")
    streamed = {
        id_: table["StreamSpecification"]
        for id_, table in of_type(found, TABLE).items()
        if "StreamSpecification" in table
    }
    tables = {name: output_id(found, f"{name}Table") for name in ("Timelines", "Posts")}
    assert streamed == dict.fromkeys(tables.values(), BOTH)
    for name, id_ in tables.items():
        arn = found["Outputs"][f"{name}StreamArn"]["Value"]
        assert arn == {"Fn::GetAtt": [id_, "StreamArn"]}


def test_switching_them_on_replaces_no_table(
    synthesize: Callable[..., Template], dev: Template
) -> None:
    assert resources(synthesize(streams="true"), TABLE).keys() == resources(dev, TABLE).keys()


def test_a_consumer_may_read_both_streams_and_no_table(stack: Stack) -> None:
    timeline, consumer = embed(stack, tables=STREAMED), client_function(stack)
    timeline.grant_streams(consumer)
    granted = statements(template_of(stack), "Reader")
    actions = {action for each in granted for action in aslist(each["Action"])}
    assert actions == {
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
    }
    on = json.dumps([each["Resource"] for each in granted if "ListStreams" not in str(each)])
    for table in (timeline.timelines_table, timeline.posts_table):
        assert json.dumps(stack.resolve(table.table_stream_arn)) in on


def aslist(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_a_consumer_of_what_a_key_encrypts_may_decrypt(stack: Stack) -> None:
    timeline = embed(stack, tables=STREAMED, encryption_key=kms.Key(stack, "Key"))
    timeline.grant_streams(client_function(stack))
    assert "kms:Decrypt" in json.dumps(statements(template_of(stack), "Reader"))


def test_without_streams_there_is_nothing_to_grant(stack: Stack) -> None:
    with pytest.raises(StageError, match="tables=TableOptions"):
        embed(stack).grant_streams(client_function(stack))
