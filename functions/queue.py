"""What the queue doors share: one message at a time, each failing alone, none in a loop."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    process_partial_response,
)
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from fanfold import aws, clock
from fanfold.errors import FanfoldError, TryLater, Undeliverable

# A message that is begun with less time than this would be cut off in the middle.
MIN_SECONDS_LEFT = 5.0
# SQS counts attributes as part of the message, and takes 1 MiB in all.
MAX_MESSAGE_BYTES = 1_048_576
MAX_REASON_CHARS = 400

logger = Logger()
processor = BatchProcessor(EventType.SQS, raise_on_entire_batch_failure=False)


@dataclass(frozen=True)
class Received:
    """One message as a worker sees it."""

    body: str
    sent_at: int  # epoch milliseconds at which SQS accepted it
    redelivered: bool
    stop_at: float  # seconds of the monotonic clock at which the function ends


def work(
    event: dict[str, Any],
    context: LambdaContext,
    handle: Callable[[Received], None],
    *,
    dead_letters: Mapping[str, str],
) -> Any:
    """Handle every message of the event; those that fail are named in the answer, to come again.

    A message that breaks the contract would fail each time: it goes to the dead-letter queue of
    its queue at once and is acknowledged. `dead_letters` maps a queue's name to that queue's URL.
    """
    stop_at = clock.monotonic() + context.get_remaining_time_in_millis() / 1000

    def one(record: SQSRecord) -> None:
        if stop_at - clock.monotonic() < MIN_SECONDS_LEFT:
            raise TryLater("Too little time is left to begin this message; it comes again.")
        attributes = record.attributes
        received = Received(
            body=record.body,
            sent_at=int(attributes.sent_timestamp or 0),
            redelivered=int(attributes.approximate_receive_count or 1) > 1,
            stop_at=stop_at,
        )
        try:
            handle(received)
        except TryLater:
            raise
        except (FanfoldError, Undeliverable) as error:
            _reject(record, error, dead_letters)
        except Exception as error:
            if not aws.is_passing(error):
                logger.exception("The message met a fault.", message_id=record.message_id)
            raise

    return process_partial_response(event, one, processor, context)


def _reject(record: SQSRecord, error: Exception, dead_letters: Mapping[str, str]) -> None:
    """Log without the body, send to the dead-letter queue, and so acknowledge."""
    body = record.body.encode("utf-8", "surrogatepass")
    reason = str(error)
    logger.error(
        "A message was rejected.",
        message_id=record.message_id,
        queue=_queue_name(record),
        sha256=hashlib.sha256(body).hexdigest(),
        size=len(body),
        reason=reason,
    )
    why: dict[str, Any] = {
        "reason": {"DataType": "String", "StringValue": reason[:MAX_REASON_CHARS]}
    }
    fits = len(body) + 4 * MAX_REASON_CHARS < MAX_MESSAGE_BYTES
    aws.sqs().send_message(
        QueueUrl=dead_letters[_queue_name(record)],
        MessageBody=record.body,
        MessageAttributes=why if fits else {},
    )


def _queue_name(record: SQSRecord) -> str:
    return record.event_source_arn.rpartition(":")[2]


def queue_name(url: str) -> str:
    """The name at the end of a queue's URL, which its ARN ends with too."""
    return url.rpartition("/")[2]
