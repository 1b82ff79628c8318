"""Streams, for other systems: off unless asked for, and what their consumers are granted."""

import json

from tests.infra.foreign import Shop, allowed, statements
from tests.infra.template import Template, of_type, output_id

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
    dev: Template, chosen: Template
) -> None:
    tables = {name: output_id(chosen, f"{name}Table") for name in ("Timelines", "Posts")}
    both = {"StreamViewType": "NEW_AND_OLD_IMAGES"}
    assert streamed(chosen) == dict.fromkeys(tables.values(), both)
    for name, id_ in tables.items():
        arn = chosen["Outputs"][f"{name}StreamArn"]["Value"]
        assert arn == {"Fn::GetAtt": [id_, "StreamArn"]}
    assert of_type(chosen, TABLE).keys() == of_type(dev, TABLE).keys()


def test_a_consumer_may_read_both_streams_and_no_table_and_decrypt(shop: Shop) -> None:
    may = allowed(shop.template, "Consumer")
    assert {each for each in may if each.startswith("dynamodb:")} == {
        "dynamodb:DescribeStream",
        "dynamodb:GetRecords",
        "dynamodb:GetShardIterator",
        "dynamodb:ListStreams",
    }
    assert "kms:Decrypt" in may
    granted = statements(shop.template, "Consumer")
    on = json.dumps([each["Resource"] for each in granted if "ListStreams" not in str(each)])
    for table in (shop.timeline.timelines_table, shop.timeline.posts_table):
        assert json.dumps(shop.resolved(table.table_stream_arn)) in on
