"""The judge of requests takes what botocore sends, and notices everything else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.wire.judge import objections

KEY = {"ref_id": {"S": "post-1"}}
UPDATE = {"TableName": "Posts", "Key": KEY, "UpdateExpression": "REMOVE body"}
ENTRY = {"PutRequest": {"Item": {"user_id": {"S": "bob"}}}}
LETTER = {
    "QueueUrl": "https://sqs.eu-central-1.amazonaws.com/123456789012/Bulk",
    "MessageBody": "{}",
    "MessageAttributes": {"reason": {"DataType": "String", "StringValue": "late"}},
}
QUERY = {"TableName": "Followers", "KeyConditionExpression": "shard_id = :s"}


def judgement(operation: str, content: Any) -> str:
    """What is said of a call with this body, whose headers are right."""
    service = "AmazonSQS" if operation.startswith("Send") else "DynamoDB_20120810"
    headers = {
        "x-amz-target": f"{service}.{operation}",
        "content-type": "application/x-amz-json-1.0",
    }
    return " ".join(objections(headers, json.dumps(content).encode()))


@pytest.mark.parametrize(
    ("operation", "content", "said"),
    [
        ("UpdateItem", {"TableName": "Posts"}, 'Missing required parameter in input: "Key"'),
        ("UpdateItem", {**UPDATE, "Key": {"ref_id": {"n": "1"}}}, "Unknown parameter in Key"),
        ("UpdateItem", {**UPDATE, "ReturnValues": "NEW"}, "none of NONE, ALL_OLD"),
        ("Query", {**QUERY, "Limit": "25"}, "Invalid type for parameter Limit"),
        ("Query", {**QUERY, "IndexName": "by author"}, "does not fit"),
        ("BatchWriteItem", {"RequestItems": {"Timelines": [ENTRY] * 26}}, "longer than 25"),
        ("SendMessage", {**LETTER, "MessageAttributes": {"reason": {}}}, "DataType"),
        ("QueryItems", {}, "no operation DynamoDB_20120810.QueryItems"),
    ],
)
def test_only_a_valid_request_raises_no_objection(operation: str, content: Any, said: str) -> None:
    assert said in judgement(operation, content)
    assert judgement("UpdateItem", UPDATE) == ""
    assert judgement("SendMessage", LETTER) == ""
