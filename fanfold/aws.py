"""AWS clients with their time-outs and retries said aloud, and which errors pass by themselves.

botocore 1.44 changed its defaults (a throttled DynamoDB call sleeps about 4 s inside the client),
so nothing here is left to a default.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionError, HTTPClientError

from fanfold.errors import Unsent

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient

# DynamoDB answers in milliseconds; a connection that is silent for so long is dead.
CONNECT_TIMEOUT_SECONDS = 1
READ_TIMEOUT_SECONDS = 2
# A first try and another: a call that nobody answers takes 6 s at most, of the 10 s of a door.
ATTEMPTS = 2
SLOWEST_CALL_SECONDS = ATTEMPTS * (CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS)

THROTTLES = frozenset(
    {
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
        "Throttling",
        "TooManyRequestsException",
        "RequestThrottled",
    }
)
PASSING = THROTTLES | {
    "InternalServerError",
    "InternalFailure",
    "ReplicatedWriteConflictException",
    "ServiceUnavailable",
    "TransactionConflictException",
    "TransactionInProgressException",
}
# Why actions of a cancelled transaction did not happen, if the same transaction may pass later.
PASSING_REASONS = frozenset(
    {
        "None",
        "ConditionalCheckFailed",
        "TransactionConflict",
        "ProvisionedThroughputExceeded",
        "ThrottlingError",
    }
)


def _config(attempts: int, connections: int) -> Config:
    return Config(
        connect_timeout=CONNECT_TIMEOUT_SECONDS,
        read_timeout=READ_TIMEOUT_SECONDS,
        retries={"mode": "standard", "total_max_attempts": attempts},
        max_pool_connections=connections,
    )


@cache
def dynamodb(attempts: int = ATTEMPTS, connections: int = 10) -> DynamoDBClient:
    """The DynamoDB client of this process; `attempts=1` where our own code owns the back-off."""
    return boto3.client("dynamodb", config=_config(attempts, connections))


@cache
def sqs() -> SQSClient:
    """The SQS client of this process."""
    return boto3.client("sqs", config=_config(ATTEMPTS, 10))


@cache
def lambda_() -> LambdaClient:
    """The Lambda client of this process."""
    return boto3.client("lambda", config=_config(ATTEMPTS, 10))


def is_passing(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later: a throttle, a 5xx, a lost connection."""
    if isinstance(error, ClientError):
        reasons: Any = error.response.get("CancellationReasons")
        if reasons:
            return {reason.get("Code", "None") for reason in reasons} <= PASSING_REASONS
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return error.response.get("Error", {}).get("Code") in PASSING or status >= 500
    return isinstance(error, ConnectionError | HTTPClientError | Unsent)
