"""Which errors pass by themselves."""

from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from fanfold import aws
from fanfold.errors import BadInput, Unsent
from fanfold.settings import Settings

URL = "https://example.org"


def client_error(code: str, status: int = 400, **more: Any) -> ClientError:
    response: Any = {
        "Error": {"Code": code, "Message": ""},
        "ResponseMetadata": {"HTTPStatusCode": status},
        **more,
    }
    return ClientError(response, "UpdateItem")


@pytest.mark.parametrize(
    "error",
    [
        client_error("ProvisionedThroughputExceededException"),
        client_error("ThrottlingException"),
        client_error("RequestLimitExceeded"),
        client_error("InternalServerError", 500),
        client_error("NeverHeardOf", 503),
        client_error("TransactionConflictException"),
        client_error("TransactionInProgressException"),
        client_error("ReplicatedWriteConflictException"),
        client_error(
            "TransactionCanceledException",
            CancellationReasons=[{"Code": "None"}, {"Code": "ThrottlingError"}],
        ),
        EndpointConnectionError(endpoint_url=URL),
        ConnectionClosedError(endpoint_url=URL),
        ConnectTimeoutError(endpoint_url=URL),
        ReadTimeoutError(endpoint_url=URL),
        Unsent("refused"),
    ],
    ids=repr,
)
def test_a_throttle_a_server_fault_and_a_lost_connection_pass(error: Exception) -> None:
    assert aws.is_passing(error)


@pytest.mark.parametrize(
    "error",
    [
        client_error("ValidationException"),
        client_error("ConditionalCheckFailedException"),
        client_error("AccessDeniedException"),
        client_error("ResourceNotFoundException"),
        client_error("ItemCollectionSizeLimitExceededException"),
        client_error(
            "TransactionCanceledException",
            CancellationReasons=[{"Code": "ThrottlingError"}, {"Code": "ValidationError"}],
        ),
        client_error("TransactionCanceledException"),
        NoCredentialsError(),
        ParamValidationError(report=""),
        BadInput("no"),
        KeyError("x"),
    ],
    ids=repr,
)
def test_what_would_fail_again_does_not_pass(error: Exception) -> None:
    assert not aws.is_passing(error)


def test_no_client_waits_for_its_own_retries_longer_than_a_door_has_time() -> None:
    door, lane = aws.dynamodb(), aws.dynamodb(attempts=1, connections=33)
    for client in (door, lane, aws.sqs()):
        config: Any = client.meta.config
        assert config.retries["mode"] == "standard"
        assert config.connect_timeout <= 1
        assert config.read_timeout <= 2
    assert door.meta.config.retries["total_max_attempts"] == 2  # type: ignore[attr-defined]
    assert Settings.door_timeout_seconds > aws.SLOWEST_CALL_SECONDS
    assert lane.meta.config.retries["total_max_attempts"] == 1  # type: ignore[attr-defined]
    assert lane.meta.config.max_pool_connections == 33  # type: ignore[attr-defined]
