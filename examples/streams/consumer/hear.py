"""Two consumers of the streams. Each record may come again, and those of one item come in order."""

import json
import os
from collections.abc import Callable
from typing import Any

import boto3

Record = dict[str, Any]


def index(event: dict[str, Any], _: object) -> dict[str, Any]:
    """Keep a search index of posts: what is retracted or has expired is found no more."""
    table = boto3.resource("dynamodb").Table(os.environ["FOUND_TABLE"])

    def one(record: Record) -> None:
        changed = record["dynamodb"]
        ref_id = changed["Keys"]["ref_id"]["S"]
        post = changed.get("NewImage")
        if post is None or "deleted_at" in post:
            table.delete_item(Key={"ref_id": ref_id})
        else:
            words = post["body"]["S"] if "body" in post else ""
            publisher = post["publisher_id"]["S"]
            table.put_item(Item={"ref_id": ref_id, "publisher_id": publisher, "words": words})

    return each(event, one)


def push(event: dict[str, Any], _: object) -> dict[str, Any]:
    """Send a message for each new entry of a user; a repeated one is told apart by its `entry`."""
    sqs = boto3.client("sqs")

    def one(record: Record) -> None:
        entry = record["dynamodb"]["NewImage"]
        user, key = entry["user_id"]["S"], entry["sort_key"]["S"]
        message = {"user_id": user, "publisher_id": entry["publisher_id"]["S"], "entry": key}
        sqs.send_message(QueueUrl=os.environ["PUSHES_URL"], MessageBody=json.dumps(message))

    return each(event, one)


def each(event: dict[str, Any], one: Callable[[Record], None]) -> dict[str, Any]:
    """Handle the records in their order, and name the first that fails: Lambda repeats from it."""
    for record in event["Records"]:
        try:
            one(record)
        except Exception as fault:  # noqa: BLE001 - any of them is repeated
            number = record["dynamodb"]["SequenceNumber"]
            print(json.dumps({"failed": number, "fault": repr(fault)}))
            return {"batchItemFailures": [{"itemIdentifier": number}]}
    return {"batchItemFailures": []}
