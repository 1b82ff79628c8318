"""boto3 clients with explicit time-outs and retries.

botocore's defaults change: since 1.44 a throttled DynamoDB call sleeps about 4 s in the client.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import ConnectionError, HTTPClientError

from fanfold.aws.retries import AT_A_TIME, CALL, CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS
from fanfold.errors import Unanswered

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient

# Connections of one process. A batch runs several tasks; rarely more than two need them at once.
CONNECTIONS = 2 * AT_A_TIME

for kind in (ConnectionError, HTTPClientError):
    Unanswered.register(kind)


def _config(attempts: int, connections: int) -> Config:
    return Config(
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=connections,
    )


@cache
def dynamodb(attempts: int = CALL.attempts, connections: int = CONNECTIONS) -> DynamoDBClient:
    """The DynamoDB client of this process; with `attempts=1` for code that retries by itself."""
    return boto3.client("dynamodb", config=_config(attempts, connections))


@cache
def sqs() -> SQSClient:
    return boto3.client("sqs", config=_config(CALL.attempts, CONNECTIONS))


@cache
def lambda_() -> LambdaClient:
    return boto3.client("lambda", config=_config(CALL.attempts, CONNECTIONS))
