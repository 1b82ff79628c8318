"""What the queue doors share: one message at a time, each failing alone, none in a loop."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import clock
from fanfold.aws.retries import SLOWEST_CALL_SECONDS, for_each, is_transient
from fanfold.errors import FanfoldError, TryLater, Undeliverable
from fanfold.names import Queue
from fanfold.settings import Settings

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mypy_boto3_sqs import SQSClient

# A message that is begun with less time than two calls that nobody answers could be cut off in the
# middle, and with it the whole batch.
MIN_SECONDS_LEFT = 2.0 * SLOWEST_CALL_SECONDS
# SQS counts attributes as part of the message, and takes 1 MiB in all.
MAX_MESSAGE_BYTES = 1_048_576
MAX_REASON_CHARS = 400

logger = Logger()

Record = Mapping[str, Any]


@dataclass(frozen=True)
class Received:
    """One message as a worker sees it."""

    queue: str  # its name, as in its URL
    body: str
    sent_at: int  # epoch milliseconds at which SQS accepted it
    redelivered: bool
    stop_at: float  # seconds of the monotonic clock at which the function ends


@dataclass(frozen=True)
class Source:
    """A queue that a door takes messages from."""

    sqs: SQSClient
    dlq_url: str
    max_receives: int  # after so many tries SQS moves a message to the dead-letter queue


def sources(settings: Settings, sqs: SQSClient, *queues: Queue) -> dict[str, Source]:
    """The queues that a door takes messages from, by the names that their events carry."""
    return {
        queue_name(getattr(settings, queue.url_setting)): Source(
            sqs,
            getattr(settings, queue.dlq_url_setting),
            queue.max_receives,
        )
        for queue in queues
    }


def work(
    event: dict[str, Any],
    context: LambdaContext,
    handle: Callable[[Received], None],
    *,
    sources: Mapping[str, Source],
    threads: Executor | None = None,
    in_turn: Callable[[str], str | None] = lambda _body: None,
) -> dict[str, Any]:
    """Handle every message of the event; those that fail are named in the answer, to come again.

    With `threads`, side by side: most of the time of a message goes by waiting for answers. But
    those of which `in_turn` says the same would be in each other's way: one after the other.

    A message that breaks the contract would fail each time: it goes to the dead-letter queue of
    its queue at once and is acknowledged. Any other error fails the message; the last time, it is
    logged, because SQS then moves it to the dead-letter queue without a reason.
    """
    stop_at = clock.monotonic() + context.get_remaining_time_in_millis() / 1000

    lines: dict[object, list[Record]] = {}
    for number, record in enumerate(event["Records"]):
        lines.setdefault(in_turn(record["body"]) or number, []).append(record)

    def failures(line: Iterable[Record]) -> list[dict[str, str]]:
        return [
            {"itemIdentifier": record["messageId"]}
            for record in line
            if not _is_done(record, sources[_queue_name(record)], handle, stop_at)
        ]

    return {"batchItemFailures": list(chain(*for_each(threads, failures, lines.values())))}


def _is_done(
    record: Record, source: Source, handle: Callable[[Received], None], stop_at: float
) -> bool:
    """Handle a message; whether it may be forgotten."""
    try:
        _begin(record, source, handle, stop_at)
    except Exception as error:
        if isinstance(error, TryLater) or is_transient(error):
            logger.warning("The message comes again.", **_described(record), reason=str(error))
        else:
            logger.exception("The message met a fault.", message_id=record["messageId"])
        if _receives(record) >= source.max_receives:
            _log_last_failure(record, error)
        return False
    return True


def _begin(
    record: Record, source: Source, handle: Callable[[Received], None], stop_at: float
) -> None:
    if stop_at - clock.monotonic() < MIN_SECONDS_LEFT:
        raise TryLater("Too little time is left to begin this message; it comes again.")
    received = Received(
        queue=_queue_name(record),
        body=record["body"],
        sent_at=int(record["attributes"].get("SentTimestamp", 0)),
        redelivered=_receives(record) > 1,
        stop_at=stop_at,
    )
    try:
        handle(received)
    except TryLater:
        raise
    except (FanfoldError, Undeliverable) as error:
        _reject(record, error, source)


def _reject(record: Record, error: Exception, source: Source) -> None:
    """Log without the body, send to the dead-letter queue, and so acknowledge."""
    reason = str(error)
    logger.error("A message was rejected.", **_described(record), reason=reason)
    why: dict[str, Any] = {
        "reason": {"DataType": "String", "StringValue": reason[:MAX_REASON_CHARS]}
    }
    fits = len(_bytes(record)) + 4 * MAX_REASON_CHARS < MAX_MESSAGE_BYTES
    source.sqs.send_message(
        QueueUrl=source.dlq_url,
        MessageBody=record["body"],
        MessageAttributes=why if fits else {},
    )


def _log_last_failure(record: Record, error: Exception) -> None:
    """Say why a message ends in the dead-letter queue, where SQS moves it when it is shown next."""
    logger.error(
        "A message failed for the last time.",
        **_described(record),
        receives=_receives(record),
        error=type(error).__name__,
        reason=str(error)[:MAX_REASON_CHARS],
    )


def _described(record: Record) -> dict[str, Any]:
    """What tells a message from others, without its body."""
    body = _bytes(record)
    return {
        "message_id": record["messageId"],
        "queue": _queue_name(record),
        "sha256": hashlib.sha256(body).hexdigest(),
        "size": len(body),
    }


def _bytes(record: Record) -> bytes:
    return str(record["body"]).encode("utf-8", "surrogatepass")


def _receives(record: Record) -> int:
    return int(record["attributes"].get("ApproximateReceiveCount", 1))


def _queue_name(record: Record) -> str:
    return str(record["eventSourceARN"]).rpartition(":")[2]


def queue_name(url: str) -> str:
    """The name at the end of a queue's URL, which its ARN ends with too."""
    return url.rpartition("/")[2]
