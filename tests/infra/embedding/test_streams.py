"""Streams, for other systems: off unless asked for, and what their consumers are granted."""

import json

from tests.infra.foreign import Shop, allowed, statements


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
