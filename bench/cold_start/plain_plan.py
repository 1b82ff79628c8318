"""PLAN's one hop as a plain function of Powertools and boto3: the same calls, in a row."""

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
SAMPLE = 1_250

logger = Logger()
metrics = Metrics(namespace="Fanfold")
processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)
dynamodb = boto3.client("dynamodb")


def plan(record: SQSRecord) -> None:
    """Deliver the post to all followers, who are few, and complete its fan-out."""
    fanout_id = json.loads(record.body)["fanout_id"]
    publisher_id = record.raw_event["attributes"]["MessageGroupId"]
    dynamodb.get_item(TableName=PUBLISHERS, Key={"publisher_id": {"S": "#channels"}})
    rows = dynamodb.batch_get_item(
        RequestItems={
            FANOUTS: {"Keys": [{"fanout_id": {"S": fanout_id}}], "ConsistentRead": True},
            POSTS: {"Keys": [{"ref_id": {"S": fanout_id}}], "ConsistentRead": True},
            PUBLISHERS: {
                "Keys": [{"publisher_id": {"S": publisher_id}}],
                "ConsistentRead": True,
            },
        }
    )["Responses"]
    (fanout,), (post,) = rows[FANOUTS], rows[POSTS]
    if fanout["state"]["S"] != "queued" or "deleted_at" in post or rows[PUBLISHERS]:
        return
    page = dynamodb.query(
        TableName=FOLLOWERS,
        KeyConditionExpression="shard_id = :shard AND edge BETWEEN :lo AND :hi",
        ExpressionAttributeValues={
            ":shard": {"S": f"{publisher_id}#0.0"},
            ":lo": {"S": "0"},
            ":hi": {"S": "g"},
        },
        ProjectionExpression="edge",
        ConsistentRead=True,
        Limit=SAMPLE,
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
        Key={"fanout_id": {"S": fanout_id}},
        UpdateExpression=(
            "SET #state = :complete, completed_at = :now, segments = :one, delivered = :written "
            "REMOVE open_fanout"
        ),
        ConditionExpression="attribute_not_exists(segments) AND #state = :queued",
        ExpressionAttributeNames={"#state": "state"},
        ExpressionAttributeValues={
            ":complete": {"S": "complete"},
            ":queued": {"S": "queued"},
            ":now": {"S": datetime.now(UTC).isoformat()},
            ":one": {"N": "1"},
            ":written": {"N": str(len(users))},
        },
    )
    metrics.add_metric("EntriesDelivered", MetricUnit.Count, len(users))


@metrics.log_metrics
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> Any:
    return process_partial_response(event, plan, processor, context)
