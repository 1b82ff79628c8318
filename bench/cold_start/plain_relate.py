"""RELATE's settling as a plain function of Powertools and boto3: the same calls."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

FOLLOWING = os.environ["FOLLOWING_TABLE"]
PUBLISHERS = os.environ["PUBLISHERS_TABLE"]
FOLLOWERS = os.environ["FOLLOWERS_TABLE"]
POSTS = os.environ["POSTS_TABLE"]
TIMELINES = os.environ["TIMELINES_TABLE"]
RETENTION = timedelta(days=30)
POSTS_TO_FILL_IN = 20

logger = Logger()
processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
dynamodb = boto3.client("dynamodb")


def settle(record: SQSRecord) -> None:
    """Make the edge agree with the follow, then fill in the newest posts."""
    order = json.loads(record.body)
    user_id, publisher_id = order["user_id"], order["publisher_id"]
    follow = _follow(user_id, publisher_id)
    shards = dynamodb.get_item(TableName=PUBLISHERS, Key={"publisher_id": {"S": publisher_id}})
    dynamodb.get_item(TableName=PUBLISHERS, Key={"publisher_id": {"S": "#channels"}})
    position = hashlib.blake2b(user_id.encode(), digest_size=8).hexdigest()
    level = int(shards.get("Item", {}).get("level", {"N": "0"})["N"])
    key: Any = {
        "shard_id": {"S": f"{publisher_id}#{level}.0"},
        "edge": {"S": f"{position}#{user_id}"},
    }
    edge = dynamodb.get_item(
        TableName=FOLLOWERS, Key=key, ConsistentRead=True, ProjectionExpression="version"
    )
    is_active = follow["state"]["S"] == "followed"
    if is_active and "Item" not in edge:
        dynamodb.put_item(TableName=FOLLOWERS, Item={**key, "version": follow["version"]})
    elif not is_active:
        dynamodb.delete_item(TableName=FOLLOWERS, Key=key)
    if _follow(user_id, publisher_id)["version"] != follow["version"]:
        raise RuntimeError("The follow changed meanwhile; the message comes again.")
    if not is_active:
        return
    found = dynamodb.query(
        TableName=POSTS,
        IndexName="by_publisher",
        KeyConditionExpression="publisher_id = :publisher AND sort_key > :since",
        ExpressionAttributeValues={
            ":publisher": {"S": publisher_id},
            ":since": {"S": (datetime.now(UTC) - RETENTION).isoformat()},
        },
        ScanIndexForward=False,
        Limit=POSTS_TO_FILL_IN,
    )
    if puts := [_put(user_id, item) for item in found["Items"]]:
        dynamodb.batch_write_item(RequestItems={TIMELINES: puts})


def _follow(user_id: str, publisher_id: str) -> Any:
    key: Any = {"user_id": {"S": user_id}, "publisher_id": {"S": publisher_id}}
    return dynamodb.get_item(TableName=FOLLOWING, Key=key, ConsistentRead=True)["Item"]


def _put(user_id: str, post: Any) -> Any:
    fixed = {name: post[name] for name in ("sort_key", "publisher_id", "expires_at")}
    return {"PutRequest": {"Item": {"user_id": {"S": user_id}, **fixed}}}


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, settle, processor, context)
