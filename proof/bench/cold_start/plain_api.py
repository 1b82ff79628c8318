"""The API's publish as a plain function of Powertools and boto3: the same calls and checks."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.exceptions import BadRequestError
from aws_lambda_powertools.utilities.typing import LambdaContext

POSTS = os.environ["POSTS_TABLE"]
FANOUTS = os.environ["FANOUTS_TABLE"]
PUBLISHERS = os.environ["PUBLISHERS_TABLE"]
PUBLISH_QUEUE = os.environ["PUBLISH_QUEUE_URL"]
RETENTION = timedelta(days=30)
MAX_BODY_BYTES = 4096
# Between two posts of one publisher, while they come as fast as they may.
INTERVAL_NS = 1_000_000_000

logger = Logger()
app = APIGatewayHttpResolver()
dynamodb = boto3.client("dynamodb")
sqs = boto3.client("sqs")


@app.post("/v1/posts")
def publish() -> Response[str]:
    """Store the post and its row in the ledger, then order its delivery."""
    context = app.current_event.request_context
    content = app.current_event.json_body
    if not isinstance(content, dict) or not content.keys() <= {"published_at", "body"}:
        raise BadRequestError("The body is an object with 'published_at' and 'body'.")
    body = json.dumps(content.get("body"), separators=(",", ":"), ensure_ascii=False)
    if len(body.encode()) > MAX_BODY_BYTES:
        raise BadRequestError("'body' is too large.")
    accepted = datetime.fromtimestamp(context.time_epoch / 1000, UTC)
    published = accepted
    if "published_at" in content:
        published = min(accepted, datetime.fromisoformat(content["published_at"]))
    if published <= accepted - RETENTION:
        raise BadRequestError("'published_at' is too long ago.")
    publisher_id = context.authorizer.jwt_claim["sub"]
    key = app.current_event.headers["idempotency-key"]
    ref_id = hashlib.sha256(f"{publisher_id}#{key}".encode()).hexdigest()[:32]
    sort_key = f"{published.isoformat(timespec='milliseconds')}#{ref_id}"
    shared: Any = {
        "publisher_id": {"S": publisher_id},
        "sort_key": {"S": sort_key},
        "accepted_at": {"S": accepted.isoformat(timespec="milliseconds")},
        "expires_at": {"N": str(int((published + RETENTION).timestamp()))},
    }
    # Counts the post against the rate of its publisher, who is at rest, as most are.
    dynamodb.update_item(
        TableName=PUBLISHERS,
        Key={"publisher_id": {"S": publisher_id}},
        UpdateExpression="SET posts_until_ns = :until, last_post = :post",
        ConditionExpression="attribute_not_exists(posts_until_ns) OR posts_until_ns <= :now",
        ExpressionAttributeValues={
            ":now": {"N": str(context.time_epoch * 1_000_000)},
            ":until": {"N": str(context.time_epoch * 1_000_000 + INTERVAL_NS)},
            ":post": {"S": ref_id},
        },
    )
    dynamodb.put_item(
        TableName=POSTS,
        Item={"ref_id": {"S": ref_id}, "body": {"S": body}, **shared},
        ConditionExpression="attribute_not_exists(ref_id)",
    )
    dynamodb.put_item(
        TableName=FANOUTS,
        Item={
            "fanout_id": {"S": ref_id},
            "state": {"S": "queued"},
            "changed_at": shared["accepted_at"],
            "open_fanout": {"S": ref_id},
            **shared,
        },
        ConditionExpression="attribute_not_exists(fanout_id)",
    )
    command = {"version": 1, "type": "fanout.plan", "fanout_id": ref_id}
    entry: Any = {"Id": "0", "MessageBody": json.dumps(command), "MessageGroupId": publisher_id}
    if sqs.send_message_batch(QueueUrl=PUBLISH_QUEUE, Entries=[entry]).get("Failed"):
        raise RuntimeError("The order was not sent.")
    answer = {"ref_id": ref_id, "published_at": published.isoformat()}
    return Response(202, "application/json", json.dumps(answer))


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return app.resolve(event, context)
