"""SWEEP as a plain function of Powertools and boto3: the same calls where nothing is lost."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

FANOUTS = os.environ["FANOUTS_TABLE"]
PUBLISHERS = os.environ["PUBLISHERS_TABLE"]
MAPPINGS = [os.environ[f"{name}_MAPPING"] for name in ("PUBLISH", "EXPRESS", "BULK")]
DLQS = [os.environ[f"{name}_DLQ_URL"] for name in ("PUBLISH", "EXPRESS", "BULK", "RELATION")]
SILENCE = timedelta(minutes=2)
MEMORY: Any = {"fanout_id": {"S": "#sweep"}}

logger = Logger()
metrics = Metrics(namespace="Fanfold")
dynamodb = boto3.client("dynamodb")
sqs = boto3.client("sqs")
lambda_ = boto3.client("lambda")


@metrics.log_metrics
@logger.inject_lambda_context
def handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Look for fan-outs that are silent, for those that have stalled, and for dead letters."""
    dynamodb.get_item(TableName=FANOUTS, Key=MEMORY, ConsistentRead=True)
    for mapping in MAPPINGS:
        if lambda_.get_event_source_mapping(UUID=mapping)["State"] != "Enabled":
            logger.info("A queue is paused.", mapping=mapping)
    now = datetime.now(UTC)
    keys = []
    scan = dynamodb.get_paginator("scan")
    for page in scan.paginate(TableName=FANOUTS, IndexName="open"):
        keys += [(item["open_fanout"]["S"], item["fanout_id"]) for item in page["Items"]]
    old = [fanout_id for key, fanout_id in keys if key < (now - SILENCE).isoformat()]
    silent = 0
    if old:
        request: Any = {"Keys": [{"fanout_id": each} for each in old], "ConsistentRead": True}
        found = dynamodb.batch_get_item(RequestItems={FANOUTS: request})
        rows: Any = found["Responses"][FANOUTS]
        since = [datetime.fromisoformat(row["changed_at"]["S"]) for row in rows]
        silent = sum(each < now - SILENCE for each in since)
        dynamodb.update_item(
            TableName=FANOUTS,
            Key=MEMORY,
            UpdateExpression="SET #position = :last",
            ExpressionAttributeNames={"#position": "position"},
            ExpressionAttributeValues={":last": old[-1]},
        )
    stalled = [
        {"fanout_id": item["fanout_id"]}
        for page in scan.paginate(TableName=FANOUTS, IndexName="stalled")
        for item in page["Items"]
    ]
    if stalled:
        dynamodb.batch_get_item(RequestItems={FANOUTS: {"Keys": stalled, "ConsistentRead": True}})
    dynamodb.get_item(TableName=PUBLISHERS, Key={"publisher_id": {"S": "#channels"}})
    letters = []
    for url in DLQS:
        answer = sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            VisibilityTimeout=0,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        letters += answer.get("Messages", [])
    for letter in letters:
        logger.error("A dead letter waits.", message_id=letter["MessageId"])
    pages = scan.paginate(TableName=FANOUTS, IndexName="stalled", Select="COUNT")
    metrics.add_metric("FanoutsStalled", MetricUnit.Count, sum(page["Count"] for page in pages))
    metrics.add_metric("FanoutsSilent", MetricUnit.Count, silent)
    metrics.add_metric("FanoutsOpen", MetricUnit.Count, len(keys))
    metrics.add_metric("DeadLetters", MetricUnit.Count, len(letters))
