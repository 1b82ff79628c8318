"""Time-outs, attempts and transient errors of every call to AWS, through either library.

It imports neither library, because functions that must start fast import it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from fanfold.errors import Unanswered, Unsent

if TYPE_CHECKING:
    from concurrent.futures import Executor

T = TypeVar("T")
R = TypeVar("R")

# DynamoDB answers in milliseconds; a connection that is silent for seconds is dead.
CONNECT_TIMEOUT_SECONDS = 1
READ_TIMEOUT_SECONDS = 2


class Tries(NamedTuple):
    """How often something is tried, and the bound of the first pause (`clock.tries`)."""

    attempts: int
    backoff_seconds: float


# One call, repeated by its client. With one retry, an unanswered call takes 6 s at most, of the
# 10 s that an HTTP function has.
CALL = Tries(2, 0.1)
SLOWEST_CALL_SECONDS = CALL.attempts * (CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS)
# One step of a request or a message, where a table throttles or others change the same row. The
# pauses last 1.6 s at most, because a reader may wait, and the door has 10 s. A step that contends
# fails only for a user who clicks faster than that.
STEP = Tries(6, 0.05)
# For a send, without the longest pause: a request sends besides its other steps.
SEND = STEP._replace(attempts=5)
# For what a batch leaves unprocessed, in a worker. The pauses last 3.1 s at most: the message comes
# again only after minutes, so giving up early would help nobody.
BATCH = Tries(6, 0.1)
# For many steps of one edge. RELATE takes over afterwards: its message was sent before the first.
DEADLINE_SECONDS = 3.0

# Concurrent calls of one task, such as pages of a ring or batches of messages.
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
# Reasons of a cancelled transaction that may succeed when it is repeated.
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
    """The results of `call` in the order of the items; concurrent if there are threads."""
    return threads.map(call, items) if threads else map(call, items)


def is_transient(error: BaseException) -> bool:
    """Whether the same call may soon succeed: after a throttle, a 5xx or a lost connection."""
    if isinstance(error, Unanswered | Unsent):
        return True
    response = _response(error)
    if reasons := response.get("CancellationReasons"):
        return {reason.get("Code", "None") for reason in reasons} <= TRANSIENT_REASONS
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _code(response) in TRANSIENT or status >= 500


def is_repeatable(error: BaseException) -> bool:
    """Whether a client may make the same call again by itself.

    Not after a failed condition of a transaction: only the caller knows what it means.
    """
    reasons = _response(error).get("CancellationReasons", ())
    has_failed = any(reason.get("Code") == "ConditionalCheckFailed" for reason in reasons)
    return is_transient(error) and not has_failed


def is_throttle(error: BaseException) -> bool:
    """Whether a table or a queue throttled the call."""
    return _code(_response(error)) in THROTTLES


def throttling_reasons(error: BaseException) -> frozenset[str]:
    """Which limits throttled a call, such as `TableWriteKeyRangeThroughputExceeded`.

    DynamoDB spells the field differently in the two exceptions that have it.
    """
    response = _response(error)
    reasons = response.get("ThrottlingReasons") or response.get("throttlingReasons") or ()
    return frozenset(reason["reason"] for reason in reasons)


def _response(error: BaseException) -> Mapping[str, Any]:
    """The service's answer in botocore's `ClientError` or in our `Refused`."""
    response: Mapping[str, Any] = getattr(error, "response", None) or {}
    return response


def _code(response: Mapping[str, Any]) -> str:
    return str(response.get("Error", {}).get("Code", ""))
