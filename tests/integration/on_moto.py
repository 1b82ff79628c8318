"""The stage on moto or DynamoDB Local, through boto3, and what moto lets pass and AWS does not."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from botocore.exceptions import ClientError
from moto import mock_aws
from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

from fanfold import names
from fanfold.settings import Settings
from tests import model
from tests.compat.calls import CREATIONS
from tests.service import ACCOUNT, REGION, VISIBILITY_SECONDS, Clock, System

OPERATORS = {"SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "BETWEEN", "IN"}
# A name: neither a function, which has a bracket behind it, nor a placeholder or a part of one.
WORD = re.compile(r"(?<![:#\w])([A-Za-z_]\w*)(?!\w|\s*\()")


@contextmanager
def on_moto(now: Clock, chosen: Settings) -> Iterator[System]:
    """Moto has the queues, and the tables unless another engine has them."""
    url = os.environ.get("AWS_ENDPOINT_URL_DYNAMODB")
    with mock_aws(config=model.MOTO):
        service = System(now, chosen)
        for name in service.dynamodb.list_tables()["TableNames"] if url else ():
            service.dynamodb.delete_table(TableName=name)
        for table in names.TABLES:
            service.dynamodb.create_table(**CREATIONS[table.name])
        for queue in names.QUEUES:
            _create_with_dlq(service.sqs, queue)
        for client in (service.dynamodb, service.unretried, service.edge_client):
            assert client.meta.endpoint_url == url or not url
            client.meta.events.register(
                "provide-client-params.dynamodb", check_expressions, unique_id="rules"
            )
        if url:
            yield service
            return
        # One message at a time: moto's transactions roll back concurrent writes.
        with patch.object(service.door("plan"), "MESSAGES", None):
            yield service


def _create_with_dlq(sqs: Any, queue: names.Queue) -> None:
    sqs.create_queue(QueueName=f"{queue.name}Dlq")
    redrive = {
        "deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue.name}Dlq",
        "maxReceiveCount": queue.max_receives,
    }
    sqs.create_queue(
        QueueName=queue.name,
        Attributes={
            "VisibilityTimeout": str(VISIBILITY_SECONDS),
            "RedrivePolicy": json.dumps(redrive),
        },
    )


def check_expressions(params: Mapping[str, Any], **_event: Any) -> None:
    """Refuse reserved words as names, and undefined or unused placeholders, as DynamoDB does.

    Registered for botocore's event `provide-client-params.dynamodb`, before the call is made.
    """
    for request in _requests(params):
        expressions = [
            value for name, value in request.items() if name.endswith("Expression") and value
        ]
        for expression in expressions:
            for word in WORD.findall(expression):
                if word.upper() not in OPERATORS and (
                    word.upper() in ReservedKeywords.get_reserved_keywords()
                ):
                    raise _invalid(f"reserved keyword: {word}, in: {expression}")
        for kind, sign in (("Names", "#"), ("Values", ":")):
            used = set(re.findall(rf"{sign}\w+", " ".join(expressions)))
            given = set(request.get(f"ExpressionAttribute{kind}", {}))
            if used != given:
                raise _invalid(f"unused or undefined: {used ^ given}, in: {expressions}")


def _requests(params: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield params
    for action in params.get("TransactItems", []):
        yield from action.values()


def _invalid(reason: str) -> ClientError:
    error = {"Error": {"Code": "ValidationException", "Message": reason}}
    return ClientError(error, "an expression")  # type: ignore[arg-type]
