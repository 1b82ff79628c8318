"""AWS's services through libcurl: the calls of the functions, and no others.

A `Client` has methods of boto3's client, takes the same requests, gives the same answers and raises
errors of the same form, so the stores cannot tell them apart. It leaves out everything else, which
saves most of a cold start and nearly all CPU of a call (figures in proof/bench/).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, cast

from fanfold import clock
from fanfold.aws import retries
from fanfold.aws.connections import DYNAMODB, LAMBDA, SQS, Connections, OfThreads, Service
from fanfold.aws.json_protocol import Exceptions, decode, encode

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_lambda import LambdaClient
    from mypy_boto3_sqs import SQSClient


class Calling(Protocol):
    """Connections of one thread, or of the calling thread."""

    def call(
        self, calls: Sequence[tuple[str, bytes]], *, fresh: bool = False
    ) -> list[bytes | Exception]: ...


def _method(operation: str) -> Callable[..., dict[str, Any]]:
    def method(self: Client, **request: Any) -> dict[str, Any]:
        return self.together((operation, request))[0]

    return method


@dataclass(frozen=True)
class Client:
    """The methods of boto3's clients that the functions call.

    A call may be made more than once: libcurl repeats it unseen (`Connections`), and the client
    repeats it after a transient error while it has attempts.
    """

    connections: Calling
    attempts: int = retries.CALL.attempts
    exceptions: Exceptions = field(default_factory=Exceptions)

    get_item = _method("GetItem")
    put_item = _method("PutItem")
    update_item = _method("UpdateItem")
    delete_item = _method("DeleteItem")
    query = _method("Query")
    scan = _method("Scan")
    batch_get_item = _method("BatchGetItem")
    batch_write_item = _method("BatchWriteItem")

    send_message = _method("SendMessage")
    send_message_batch = _method("SendMessageBatch")
    receive_message = _method("ReceiveMessage")
    change_message_visibility = _method("ChangeMessageVisibility")

    def transact_write_items(self, **request: Any) -> dict[str, Any]:
        """Write all or nothing, once: DynamoDB knows a repeated call by its token."""
        request.setdefault("ClientRequestToken", clock.new_id())
        return self.together(("TransactWriteItems", request))[0]

    def get_event_source_mapping(self, *, UUID: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        return self.together((f"/2015-03-31/event-source-mappings/{UUID}", {}))[0]

    def together(self, *calls: tuple[str, dict[str, Any]]) -> list[dict[str, Any]]:
        """The answers to calls, such as `Query`, that are made at the same time."""
        bodies = [(operation, encode(request)) for operation, request in calls]
        answers: dict[int, dict[str, Any]] = {}
        for attempt in clock.tries(self.attempts, retries.CALL.backoff_seconds):
            left = [number for number in range(len(calls)) if number not in answers]
            # What broke one connection may have broken the other open ones.
            results = self.connections.call([bodies[each] for each in left], fresh=attempt > 0)
            for number, result in zip(left, results, strict=True):
                try:
                    if isinstance(result, Exception):
                        raise result
                    answers[number] = decode(bodies[number][0], result)
                except Exception as error:
                    if attempt == self.attempts - 1 or not retries.is_repeatable(error):
                        raise
            if len(answers) == len(calls):
                break
        return [answers[number] for number in range(len(calls))]


@cache
def connections(service: Service) -> Connections:
    """The connections of the delivery transport, which threads share; no client uses them."""
    return Connections(service)


@cache
def of_threads(service: Service) -> OfThreads:
    """The connections that all clients of this process share."""
    return OfThreads(service)


@cache
def dynamodb(attempts: int = retries.CALL.attempts) -> DynamoDBClient:
    """The DynamoDB client of this process; with `attempts=1` for code that retries by itself."""
    return cast("DynamoDBClient", Client(of_threads(DYNAMODB), attempts))


@cache
def sqs() -> SQSClient:
    return cast("SQSClient", Client(of_threads(SQS)))


@cache
def lambda_() -> LambdaClient:
    return cast("LambdaClient", Client(of_threads(LAMBDA)))
