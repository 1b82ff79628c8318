"""boto3 clients with their time-outs and retries said aloud.

botocore 1.44 changed its defaults (a throttled DynamoDB call sleeps about 4 s inside the client),
so nothing here is left to a default.
"""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.exceptions import ConnectionError, HTTPClientError

from fanfold.aws.retries import AT_A_TIME, ATTEMPTS, CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS
from fanfold.errors import Unanswered

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient

# Of a process, which has a batch of such work: twice as many, as seldom more than one needs them.
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
def dynamodb(attempts: int = ATTEMPTS, connections: int = CONNECTIONS) -> DynamoDBClient:
    """The DynamoDB client of this process; `attempts=1` where our own code owns the back-off."""
    return boto3.client("dynamodb", config=_config(attempts, connections))


def threads(count: int) -> Executor:
    """Threads of the caller's own, for so many calls at a time."""
    return ThreadPoolExecutor(count)


@cache
def sqs() -> SQSClient:
    """The SQS client of this process."""
    return boto3.client("sqs", config=_config(ATTEMPTS, CONNECTIONS))


@cache
def lambda_() -> LambdaClient:
    """The Lambda client of this process."""
    return boto3.client("lambda", config=_config(ATTEMPTS, CONNECTIONS))
