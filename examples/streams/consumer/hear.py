"""Two consumers of the streams. Each record may come again, and those of one item come in order."""

import json
import os
from collections.abc import Callable
from datetime import datetime
from typing import Any

import boto3

Record = dict[str, Any]

# What was published longer ago when it was delivered is no news. A celebrity's post takes minutes.
NEWS_SECONDS = 60 * 60


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
    """Send a message for each new entry of a user; a repeated one is told apart by its `entry`.

    Not for what a new follow brings from before, nor for a publisher whom the user has muted. An
    entry of a channel has no user: its followers are not told.
    """
    sqs = boto3.client("sqs")
    readers = boto3.resource("dynamodb").Table(os.environ["READERS_TABLE"])

    def one(record: Record) -> None:
        entry = record["dynamodb"]["NewImage"]
        user, publisher = entry["user_id"]["S"], entry["publisher_id"]["S"]
        key = entry["sort_key"]["S"]
        published_at = datetime.fromisoformat(key.partition("#")[0]).timestamp()
        age = record["dynamodb"]["ApproximateCreationDateTime"] - published_at
        if user.startswith("#") or age > NEWS_SECONDS:
            return
        muted: Any = readers.get_item(Key={"user_id": f"{user}#muted"}).get("Item", {})
        if publisher in muted.get("publishers", ()):
            return
        message = {"user_id": user, "publisher_id": publisher, "entry": key}
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
