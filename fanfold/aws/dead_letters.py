"""Dead-letter queues: messages are sent there with a reason, and read without taking any away.

They have no redrive policy of their own, so a message may be received any number of times.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fanfold import contract, times
from fanfold.errors import BadInput
from fanfold.messages import FIRST_SENT_AT, first_sent_at

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# SQS's limit for one call.
PAGE = 10
# Long polling queries all servers of SQS, so an empty answer means an empty queue.
WAIT_SECONDS = 1
# SQS's limit for a message, attributes included.
MAX_MESSAGE_BYTES = 1_048_576
MAX_REASON_CHARS = 400
# Ids of reported messages that a process remembers: far more than it sees in its lifetime.
MAX_REPORTED = 1_000

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A message of a dead-letter queue, as one receive returned it."""

    message_id: str
    body: str
    sent_at: int  # epoch milliseconds
    first_sent_at: int  # the same of the sender's wish: it outlives rejections and redrives
    receives: int  # including those from the queue that it comes from
    reason: str  # why a worker rejected it; empty if SQS moved it
    group: str
    receipt: str

    @property
    def size(self) -> int:
        """Size of the body in bytes."""
        return len(self.body.encode("utf-8", "surrogatepass"))

    def is_expired(self, *, now: int, retention_days: int) -> bool:
        """Whether it publishes a post whose entries would already be past their time to live."""
        try:
            content = json.loads(self.body)
            if not isinstance(content, dict) or content.get("type") != contract.POST_PUBLISHED:
                return False
            published_at = times.to_ms(content["published_at"])
        except (ValueError, RecursionError, KeyError, TypeError, BadInput):
            return False  # unreadable, or without a time: its worker decides
        return published_at + retention_days * _DAY_MS <= now


@dataclass(frozen=True)
class DeadLetterQueue:
    client: SQSClient
    url: str

    def add(self, body: str, *, reason: str, first_sent_at: int) -> None:
        """Send a rejected message; a reason that does not fit beside the body is left out."""
        why: dict[str, Any] = {
            "reason": {"DataType": "String", "StringValue": reason[:MAX_REASON_CHARS]},
            FIRST_SENT_AT: {"DataType": "String", "StringValue": str(first_sent_at)},
        }
        size = len(body.encode("utf-8", "surrogatepass"))
        fits = size + 4 * MAX_REASON_CHARS < MAX_MESSAGE_BYTES
        self.client.send_message(
            QueueUrl=self.url, MessageBody=body, MessageAttributes=why if fits else {}
        )

    def peek(self) -> list[DeadLetter]:
        """Up to ten messages, which stay visible to other readers."""
        return self.receive(hidden_seconds=0)

    def receive(self, *, hidden_seconds: int, wait_seconds: int = 0) -> list[DeadLetter]:
        """Up to ten messages, which other readers do not see for `hidden_seconds`."""
        answer = self.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=PAGE,
            VisibilityTimeout=hidden_seconds,
            WaitTimeSeconds=wait_seconds,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return [_from_message(message) for message in answer.get("Messages", [])]

    def release(self, messages: Collection[DeadLetter]) -> None:
        """Make received messages visible to other readers at once."""
        every = list(messages)
        for start in range(0, len(every), PAGE):
            entries: list[Any] = [
                {"Id": str(number), "ReceiptHandle": message.receipt, "VisibilityTimeout": 0}
                for number, message in enumerate(every[start : start + PAGE])
            ]
            # Failed entries are ignored: those messages become visible when their time is over.
            self.client.change_message_visibility_batch(QueueUrl=self.url, Entries=entries)

    def delete(self, message: DeadLetter) -> None:
        self.client.delete_message(QueueUrl=self.url, ReceiptHandle=message.receipt)

    def count(self) -> int:
        """Approximate number of messages, including those that another reader has received."""
        kinds: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=kinds)
        return sum(int(number) for number in answer["Attributes"].values())


def _from_message(message: Any) -> DeadLetter:
    attributes, more = message.get("Attributes", {}), message.get("MessageAttributes", {})
    sent_at = int(attributes.get("SentTimestamp", 0))
    first = more.get(FIRST_SENT_AT, {}).get("StringValue", "")
    return DeadLetter(
        message_id=message["MessageId"],
        body=message["Body"],
        sent_at=sent_at,
        first_sent_at=first_sent_at(first, sent_at=sent_at),
        receives=int(attributes.get("ApproximateReceiveCount", 0)),
        reason=more.get("reason", {}).get("StringValue", ""),
        group=attributes.get("MessageGroupId", ""),
        receipt=message["ReceiptHandle"],
    )


@dataclass(frozen=True)
class DeadLetterReports:
    """Finds the messages that have no reason with them, each once in the life of this process.

    Nothing in a message says when it reached the dead-letter queue: its receives and its age
    include those of the queue that it comes from. So the process remembers what it has reported,
    and reports it again after a cold start.
    """

    queues: Mapping[str, DeadLetterQueue]
    reported: dict[str, None] = field(default_factory=dict)  # message ids, the oldest first

    def new(self) -> Iterator[tuple[str, DeadLetter]]:
        """Peek at each queue; messages without a reason that are not reported yet, by queue."""
        for name, queue in self.queues.items():
            for message in queue.peek():
                if not message.reason and message.message_id not in self.reported:
                    self._remember(message.message_id)
                    yield name, message

    def _remember(self, message_id: str) -> None:
        self.reported[message_id] = None
        if len(self.reported) > MAX_REPORTED:
            del self.reported[next(iter(self.reported))]
