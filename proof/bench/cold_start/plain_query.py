"""`timeline` as a plain function of Powertools and boto3: the same calls, the same answer."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.typing import LambdaContext

TIMELINES = os.environ["TIMELINES_TABLE"]
POSTS = os.environ["POSTS_TABLE"]
RETENTION = timedelta(days=30)

logger = Logger()
app = APIGatewayHttpResolver()
dynamodb = boto3.client("dynamodb")


@app.get("/v1/timeline")
def timeline() -> dict[str, Any]:
    """The newest page of the user's timeline, each entry with its post."""
    authorizer = app.current_event.request_context.authorizer
    limit = int((app.current_event.query_string_parameters or {}).get("limit", "50"))
    found = dynamodb.query(
        TableName=TIMELINES,
        KeyConditionExpression="user_id = :user AND sort_key > :since",
        ExpressionAttributeValues={
            ":user": {"S": authorizer.jwt_claim["sub"]},
            ":since": {"S": (datetime.now(UTC) - RETENTION).isoformat()},
        },
        ProjectionExpression="sort_key, publisher_id",
        ScanIndexForward=False,
        Limit=limit,
    )
    keys = [item["sort_key"]["S"].partition("#") for item in found["Items"]]
    posts = dynamodb.batch_get_item(
        RequestItems={
            POSTS: {
                "Keys": [{"ref_id": {"S": ref_id}} for _, _, ref_id in keys],
                "ConsistentRead": True,
            }
        }
    )
    bodies = {post["ref_id"]["S"]: post["body"]["S"] for post in posts["Responses"][POSTS]}
    entries = [
        {
            "ref_id": ref_id,
            "publisher_id": item["publisher_id"]["S"],
            "published_at": published_at,
            "body": json.loads(bodies[ref_id]),
        }
        for item, (published_at, _, ref_id) in zip(found["Items"], keys, strict=True)
    ]
    return {"entries": entries}


@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    return app.resolve(event, context)
