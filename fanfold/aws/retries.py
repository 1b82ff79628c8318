"""What every call to AWS keeps to, whoever makes it: its time, its attempts, and which errors pass.

Without a library of AWS: the doors that must start fast read this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from fanfold.errors import Unanswered, Unsent

if TYPE_CHECKING:
    from concurrent.futures import Executor

T = TypeVar("T")
R = TypeVar("R")

# DynamoDB answers in milliseconds; a connection that is silent for so long is dead.
CONNECT_TIMEOUT_SECONDS = 1
READ_TIMEOUT_SECONDS = 2
# A first try and another: a call that nobody answers takes 6 s at most, of the 10 s of a door.
ATTEMPTS = 2
SLOWEST_CALL_SECONDS = ATTEMPTS * (CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS)

# Calls that one piece of work makes at once: pages of a ring of many shards, batches of messages.
AT_A_TIME = 16

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
TRANSIENT = THROTTLES | {
    "InternalServerError",
    "InternalFailure",
    "ReplicatedWriteConflictException",
    "ServiceUnavailable",
    "TransactionConflictException",
    "TransactionInProgressException",
}
# Why actions of a cancelled transaction did not happen, if the same transaction may pass later.
TRANSIENT_REASONS = frozenset(
    {
        "None",
        "ConditionalCheckFailed",
        "TransactionConflict",
        "ProvisionedThroughputExceeded",
        "ThrottlingError",
    }
)


def for_each(threads: Executor | None, call: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """What `call` says to each item, in their order; many at a time where there are threads."""
    return threads.map(call, items) if threads else map(call, items)


def is_transient(error: BaseException) -> bool:
    """Whether the same call may succeed a moment later: a throttle, a 5xx, a lost connection."""
    if isinstance(error, Unanswered | Unsent):
        return True
    response = _response(error)
    if reasons := response.get("CancellationReasons"):
        return {reason.get("Code", "None") for reason in reasons} <= TRANSIENT_REASONS
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _code(response) in TRANSIENT or status >= 500


def is_throttle(error: BaseException) -> bool:
    """Whether a table or queue took less than it was offered."""
    return _code(_response(error)) in THROTTLES


def throttling_reasons(error: BaseException) -> frozenset[str]:
    """Which limits throttled a call, such as `TableWriteKeyRangeThroughputExceeded`.

    Two exceptions of DynamoDB carry them, and spell the field in two ways.
    """
    response = _response(error)
    reasons = response.get("ThrottlingReasons") or response.get("throttlingReasons") or ()
    return frozenset(reason["reason"] for reason in reasons)


def _response(error: BaseException) -> Mapping[str, Any]:
    """What the service answered, as botocore's `ClientError` and our `wire.Refused` keep it."""
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    return response


def _code(response: Mapping[str, Any]) -> str:
    return str(response.get("Error", {}).get("Code", ""))
