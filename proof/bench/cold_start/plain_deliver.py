"""DELIVER as a plain function of Powertools and boto3: the same calls, one after the other."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

FANOUTS = os.environ["FANOUTS_TABLE"]
POSTS = os.environ["POSTS_TABLE"]
PUBLISHERS = os.environ["PUBLISHERS_TABLE"]
FOLLOWERS = os.environ["FOLLOWERS_TABLE"]
TIMELINES = os.environ["TIMELINES_TABLE"]
CHUNK = 25
PAGE = 2_500

logger = Logger()
metrics = Metrics(namespace="Fanfold")
processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
dynamodb = boto3.client("dynamodb")


def deliver(record: SQSRecord) -> None:
    """Write the post into all timelines: the segment is the whole ring."""
    command = json.loads(record.body)
    key: Any = {"fanout_id": {"S": command["fanout_id"]}}
    publisher_id = record.raw_event["attributes"]["MessageGroupId"]
    publisher: Any = {"publisher_id": {"S": publisher_id}}
    rows = dynamodb.batch_get_item(
        RequestItems={
            FANOUTS: {"Keys": [key], "ConsistentRead": True},
            POSTS: {"Keys": [{"ref_id": key["fanout_id"]}], "ConsistentRead": True},
            PUBLISHERS: {"Keys": [publisher], "ConsistentRead": True},
        }
    )["Responses"]
    (fanout,), (post,) = rows[FANOUTS], rows[POSTS]
    if str(command["segment"]) not in fanout["pending"]["NS"] or "deleted_at" in post:
        return
    page = dynamodb.query(
        TableName=FOLLOWERS,
        KeyConditionExpression="shard_id = :shard AND edge BETWEEN :lo AND :hi",
        ExpressionAttributeValues={
            ":shard": {"S": f"{fanout['publisher_id']['S']}#0.0"},
            ":lo": {"S": "0"},
            ":hi": {"S": "g"},
        },
        ProjectionExpression="edge",
        ConsistentRead=True,
        Limit=PAGE,
    )
    users = [item["edge"]["S"].partition("#")[2] for item in page["Items"]]
    fixed = {name: fanout[name] for name in ("sort_key", "publisher_id", "expires_at")}
    for start in range(0, len(users), CHUNK):
        puts: Any = [
            {"PutRequest": {"Item": {"user_id": {"S": user}, **fixed}}}
            for user in users[start : start + CHUNK]
        ]
        answer = dynamodb.batch_write_item(RequestItems={TIMELINES: puts})
        if answer["UnprocessedItems"]:
            raise RuntimeError("Some entries were not written.")
    dynamodb.update_item(
        TableName=FANOUTS,
        Key=key,
        UpdateExpression=(
            "SET #state = :complete, completed_at = :now ADD delivered :written "
            "DELETE pending :segment REMOVE open_fanout"
        ),
        ConditionExpression="contains(pending, :number)",
        ExpressionAttributeNames={"#state": "state"},
        ExpressionAttributeValues={
            ":complete": {"S": "complete"},
            ":now": {"S": datetime.now(UTC).isoformat()},
            ":written": {"N": str(len(users))},
            ":segment": {"NS": [str(command["segment"])]},
            ":number": {"N": str(command["segment"])},
        },
        ReturnValues="ALL_NEW",
    )
    logger.info("A segment was worked on.", fanout_id=command["fanout_id"], written=len(users))
    metrics.add_metric("EntriesDelivered", MetricUnit.Count, len(users))


@metrics.log_metrics
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, deliver, processor, context)
