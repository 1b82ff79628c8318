"""Handles the messages of a batch so that each fails alone, and none fails for ever."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import clock, contract
from fanfold.aws.early_messages import NOT_YET_SECONDS
from fanfold.aws.retries import SLOWEST_CALL_SECONDS, for_each, is_transient
from fanfold.errors import (
    FanfoldError,
    NotYet,
    TooManyBlocks,
    TooManyFollows,
    TryLater,
    Undeliverable,
)
from fanfold.messages import first_message_id, first_sent_at, sha256
from fanfold.names import Queue
from fanfold.settings import Settings
from functions._logs import new_logger, shown

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mypy_boto3_sqs import SQSClient

# Two unanswered calls. With less time left, a message could run into the timeout of the function,
# and then the whole batch fails.
MIN_SECONDS_LEFT = 2.0 * SLOWEST_CALL_SECONDS

# Of AWS's error text.
MAX_LOGGED_CHARS = 400

logger = new_logger()

Record = Mapping[str, Any]
Message = TypeVar("Message")


class Received(NamedTuple, Generic[Message]):
    queue: str  # the queue's name, as in its URL
    message: Message  # read from the body
    group: str  # for SQS's fairness: of our own commands the publisher, or the user
    sent_at: int  # epoch milliseconds at which SQS accepted it; new at each redrive
    first_sent_at: int  # epoch milliseconds at which it was first sent: that of the request
    sender_id: str  # according to SQS
    first_senders: str  # according to the sender, who may have moved a dead letter back
    redelivered: bool
    stop_at: float  # when the function times out, in seconds of the monotonic clock


class QueueSource(NamedTuple):
    sqs: SQSClient
    url: str
    dlq_url: str
    max_receives: int


def sources(settings: Settings, sqs: SQSClient, *queues: Queue) -> dict[str, QueueSource]:
    """Sources by the name of the queue, as in the events."""
    return {
        queue_name(getattr(settings, queue.url_setting)): QueueSource(
            sqs,
            getattr(settings, queue.url_setting),
            getattr(settings, queue.dlq_url_setting),
            queue.max_receives,
        )
        for queue in queues
    }


class _Arrived(NamedTuple, Generic[Message]):
    record: Record
    message: Message | Exception  # the reason if it cannot be read: it fails alone, in its turn

    @classmethod
    def of(cls, record: Record, read: Callable[[str], Message]) -> _Arrived[Message]:
        try:
            return _Arrived(record, read(record["body"]))
        except Exception as error:  # noqa: BLE001 - raised in the message's turn
            return _Arrived(record, error)

    def key(self, of: Callable[[Message], str | None]) -> str | None:
        return None if isinstance(self.message, Exception) else of(self.message)


def work(
    event: dict[str, Any],
    context: LambdaContext,
    read: Callable[[str], Message],
    handle: Callable[[Received[Message]], object],
    *,
    sources: Mapping[str, QueueSource],
    threads: Executor | None = None,
    in_turn: Callable[[Message], str | None] = lambda _message: None,
    once: Callable[[Message], str | None] = lambda _message: None,
) -> dict[str, Any]:
    """Read and handle every message of the event; the answer names those that failed.

    With `threads`, messages are handled concurrently, because they mostly wait for AWS. Messages
    with the same key of `in_turn` contend for a row and are handled one after the other. Messages
    with the same key of `once` ask for the same: the last one sent is handled for all.

    A message that breaks the contract would fail each time, so it is sent to the dead-letter queue
    at once and acknowledged. Any other error fails the message. Its last failure is logged, because
    SQS then moves the message to the dead-letter queue without a reason.
    """
    stop_at = clock.monotonic() + context.get_remaining_time_in_millis() / 1000

    lines: dict[object, dict[object, list[_Arrived[Message]]]] = {}
    for number, record in enumerate(event["Records"]):
        arrived = _Arrived.of(record, read)
        line = lines.setdefault(arrived.key(in_turn) or number, {})
        line.setdefault(arrived.key(once) or number, []).append(arrived)

    def failures(line: Mapping[object, Sequence[_Arrived[Message]]]) -> list[dict[str, str]]:
        failed = [
            copy.record
            for copies in line.values()
            if not _is_done(copies, sources[source_name(copies[0].record)], handle, stop_at)
            for copy in copies
        ]
        return [{"itemIdentifier": record["messageId"]} for record in failed]

    return {"batchItemFailures": list(chain(*for_each(threads, failures, lines.values())))}


def _is_done(
    copies: Sequence[_Arrived[Message]],
    source: QueueSource,
    handle: Callable[[Received[Message]], object],
    stop_at: float,
) -> bool:
    """Handle messages that ask for the same; returns whether they are done and can be deleted."""
    last = max(copies, key=lambda copy: _first_sent_at(copy.record))
    record, records = last.record, [copy.record for copy in copies]
    redelivered = any(_receives(each) > 1 for each in records)
    try:
        _begin(last, source, handle, stop_at, redelivered=redelivered)
    except Exception as error:
        if isinstance(error, TryLater) or is_transient(error):
            logger.warning("The message comes again.", **_described(record), reason=shown(error))
        else:
            logger.exception("The message met a fault.", message_id=record["messageId"])
        for each in records:
            if isinstance(error, NotYet):
                _try_again_soon(each, source)
            if _receives(each) >= source.max_receives:
                _log_last_failure(each, error)
        return False
    return True


def _try_again_soon(record: Record, source: QueueSource) -> None:
    """Shorten the visibility timeout of a message, or lengthen it for the last time."""
    receives = _receives(record)
    if receives > len(NOT_YET_SECONDS):
        return
    try:
        source.sqs.change_message_visibility(
            QueueUrl=source.url,
            ReceiptHandle=record["receiptHandle"],
            VisibilityTimeout=NOT_YET_SECONDS[receives - 1],
        )
    except Exception:
        # It still comes again, after the timeout of its queue.
        logger.warning("A message was not hidden anew.", **_described(record), exc_info=True)


def _begin(
    arrived: _Arrived[Message],
    source: QueueSource,
    handle: Callable[[Received[Message]], object],
    stop_at: float,
    *,
    redelivered: bool,
) -> None:
    if stop_at - clock.monotonic() < MIN_SECONDS_LEFT:
        raise TryLater("Too little time is left to begin this message; it comes again.")
    record, message = arrived
    try:
        if isinstance(message, Exception):
            raise message
        handle(
            Received(
                queue=source_name(record),
                message=message,
                group=_group(record),
                sent_at=_sent_at(record),
                first_sent_at=_first_sent_at(record),
                sender_id=_sender_id(record),
                first_senders=_attribute(record, contract.FIRST_SENDERS),
                redelivered=redelivered,
                stop_at=stop_at,
            )
        )
    except TryLater:
        raise
    except (FanfoldError, Undeliverable) as error:
        _reject(record, error, source)


def _reject(record: Record, error: Exception, source: QueueSource) -> None:
    """Send a message to the dead-letter queue with the reason; the log leaves out its body."""
    reason = str(error)
    logger.error("A message was rejected.", **_described(record), reason=shown(error))
    # Imported here, since it is rarely called: a cold start need not wait for it.
    from fanfold.aws.dead_letters import CONTRACT, GAVE_UP, DeadLetterQueue
    from fanfold.aws.senders import chain

    # A user may unfollow somebody, and the stage may raise its limit.
    may_succeed = isinstance(error, Undeliverable | TooManyFollows | TooManyBlocks)
    DeadLetterQueue(source.sqs, source.dlq_url).add(
        record["body"],
        reason=reason,
        kind=GAVE_UP if may_succeed else CONTRACT,
        first_sent_at=_first_sent_at(record),
        first_message_id=_first_message_id(record),
        senders=chain(_sender_id(record), _attribute(record, contract.FIRST_SENDERS)),
        group=_group(record),
    )


def _log_last_failure(record: Record, error: Exception) -> None:
    """Log why a message fails; SQS moves it to the dead-letter queue instead of redelivering it."""
    logger.error(
        "A message failed for the last time.",
        **_described(record),
        receives=_receives(record),
        error=type(error).__name__,
        reason=shown(error)[:MAX_LOGGED_CHARS],
    )


def _described(record: Record) -> dict[str, Any]:
    """What identifies a message, without its body; its dead letter carries the same."""
    body = str(record["body"])
    return {
        "message_id": record["messageId"],
        "first_message_id": _first_message_id(record),
        "queue": source_name(record),
        "sha256": sha256(body),
        "size": len(body.encode("utf-8", "surrogatepass")),
    }


def _receives(record: Record) -> int:
    return int(record["attributes"].get("ApproximateReceiveCount", 1))


def _group(record: Record) -> str:
    return str(record["attributes"].get("MessageGroupId", ""))


def _sender_id(record: Record) -> str:
    return str(record["attributes"].get("SenderId", ""))


def _sent_at(record: Record) -> int:
    return int(record["attributes"].get("SentTimestamp", 0))


def _first_sent_at(record: Record) -> int:
    return first_sent_at(_attribute(record, contract.FIRST_SENT_AT), sent_at=_sent_at(record))


def _first_message_id(record: Record) -> str:
    carried = _attribute(record, contract.FIRST_MESSAGE_ID)
    return first_message_id(carried, message_id=record["messageId"])


def _attribute(record: Record, name: str) -> str:
    """A message attribute of type `String`, or an empty text."""
    return str(record.get("messageAttributes", {}).get(name, {}).get("stringValue") or "")


def source_name(record: Record) -> str:
    """The name of the queue that a record comes from."""
    return str(record["eventSourceARN"]).rpartition(":")[2]


def queue_name(url: str) -> str:
    """The queue's name, which its URL and its ARN end with."""
    return url.rpartition("/")[2]
