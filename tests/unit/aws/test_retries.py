"""Which errors are transient, which of them are throttles, and how often something is tried."""

import re
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from fanfold import names
from fanfold.aws import boto, retries
from fanfold.aws.json_protocol import Lost, Refused
from fanfold.aws.retries import SLOWEST_CALL_SECONDS, is_throttle, is_transient, throttling_reasons
from fanfold.errors import BadInput, Unsent

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
        ConnectTimeoutError(endpoint_url=URL),
        ReadTimeoutError(endpoint_url=URL),
        Unsent("refused"),
        Lost("The connection was reset."),
    ],
    ids=repr,
)
def test_throttles_server_faults_and_lost_connections_are_transient(error: Exception) -> None:
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        client_error("ValidationException"),
        client_error("ConditionalCheckFailedException"),
        client_error("AccessDeniedException"),
        client_error(
            "TransactionCanceledException",
            CancellationReasons=[{"Code": "ThrottlingError"}, {"Code": "ValidationError"}],
        ),
        client_error("TransactionCanceledException"),
        NoCredentialsError(),
        BadInput("no"),
        KeyError("x"),
    ],
    ids=repr,
)
def test_errors_that_would_recur_are_not_transient(error: Exception) -> None:
    assert not is_transient(error)


THROTTLES = [
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "ThrottlingException",
    "Throttling",
    "TooManyRequestsException",
    "RequestThrottled",
]


@pytest.mark.parametrize("code", THROTTLES)
def test_every_throttle_is_transient_through_both_libraries(code: str) -> None:
    error = client_error(code)
    ours = Refused(dict(error.response), "UpdateItem")
    assert is_throttle(error)
    assert is_transient(error)
    assert is_throttle(ours)
    assert is_transient(ours)


@pytest.mark.parametrize(
    "error",
    [
        client_error("InternalServerError", 500),
        client_error("ConditionalCheckFailedException"),
        ReadTimeoutError(endpoint_url=URL),
        Lost("The connection was reset."),
        KeyError("ThrottlingException"),
    ],
    ids=repr,
)
def test_other_errors_are_no_throttles(error: Exception) -> None:
    assert not is_throttle(error)


@pytest.mark.parametrize("field", ["ThrottlingReasons", "throttlingReasons"])
def test_throttling_reasons_are_found_in_both_spellings(field: str) -> None:
    met = [
        {"reason": "TableWriteKeyRangeThroughputExceeded", "resource": "arn:table"},
        {"reason": "TableWriteAccountLimitExceeded", "resource": "arn:table"},
    ]
    more: Any = {field: met}
    error = client_error("ThrottlingException", **more)
    assert throttling_reasons(error) == {
        "TableWriteKeyRangeThroughputExceeded",
        "TableWriteAccountLimitExceeded",
    }
    # A throttle may have none.
    assert throttling_reasons(client_error("ThrottlingException")) == frozenset()
    assert throttling_reasons(KeyError("x")) == frozenset()


def test_an_unanswered_call_ends_before_the_functions_timeout() -> None:
    door, lane = boto.dynamodb(), boto.dynamodb(attempts=1, connections=33)
    for client in (door, lane, boto.sqs()):
        config: Any = client.meta.config
        assert config.retries["mode"] == "standard"
        assert config.connect_timeout <= 1
        assert config.read_timeout <= 2
    assert door.meta.config.retries["total_max_attempts"] == 2  # type: ignore[attr-defined]
    assert names.API.seconds > SLOWEST_CALL_SECONDS
    assert lane.meta.config.retries["total_max_attempts"] == 1  # type: ignore[attr-defined]
    assert lane.meta.config.max_pool_connections == 33  # type: ignore[attr-defined]


POLICIES = {
    *(f"in clock.tries(*{policy})" for policy in ("STEP", "SEND", "BATCH")),
    "in clock.tries(self.attempts, retries.CALL.backoff_seconds)",
}
OTHER_LOOPS = [
    "boto3_transport: while True",  # empties a queue in memory
    "clock: in range(attempts)",  # that of the policies
    "connections: while True",  # waits for libcurl, until a time
    "delivery: in range(DECISIONS)",  # decides anew on a changed head, which a pause would age
    "dynamodb: while True",  # the next page
    "follow: in range(MAX_PAGES)",  # the next page
    "union: while True",  # asks more of each channel
]
LOOP = re.compile(r"for \w+ (in clock\.tries\(.*\)|in range\([\w.]+\)):|(while True):")


def test_every_loop_of_the_engine_retries_by_a_policy() -> None:
    root, loops = Path(retries.__file__).parents[2], list[tuple[str, str]]()
    for path in (*root.glob("fanfold/**/*.py"), *root.glob("functions/**/*.py")):
        loops += ((path.stem, "".join(found)) for found in LOOP.findall(path.read_text()))
    assert {loop for _, loop in loops} >= POLICIES
    assert sorted(f"{at}: {loop}" for at, loop in loops if loop not in POLICIES) == OTHER_LOOPS
    for policy, seconds in ((retries.STEP, 1.6), (retries.SEND, 0.75), (retries.BATCH, 3.1)):
        assert policy.backoff_seconds * (2 ** (policy.attempts - 1) - 1) <= seconds
