"""The dead-letter queues: looked at without taking anything away.

A dead-letter queue has no redrive policy of its own, so receiving from it buries nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fanfold import contract, times
from fanfold.errors import BadInput

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# SQS gives and takes no more in one call.
PAGE = 10
# Long enough to ask all of SQS's servers: an empty answer then means an empty queue.
WAIT_SECONDS = 1
# Letters that a process remembers to have named; far more than it sees in its life.
MAX_REMEMBERED = 1_000

_DAY_MS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """One message of a dead-letter queue, as this receipt shows it."""

    message_id: str
    body: str
    sent_at: int  # epoch milliseconds
    receives: int  # those of the queue that it comes from count on
    reason: str  # of the worker that rejected it; empty where SQS moved it
    group: str
    receipt: str

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body.encode("utf-8", "surrogatepass"))

    def is_expired(self, *, now: int, retention_days: int) -> bool:
        """Whether it publishes a post whose entries would be past their time to live already."""
        try:
            content = json.loads(self.body)
            if not isinstance(content, dict) or content.get("type") != contract.POST_PUBLISHED:
                return False
            published_at = times.to_ms(content["published_at"])
        except (ValueError, RecursionError, KeyError, TypeError, BadInput):
            return False  # not to be read, or without a time: its worker decides
        return published_at + retention_days * _DAY_MS <= now


@dataclass(frozen=True)
class DeadLetterQueue:
    """One dead-letter queue."""

    client: SQSClient
    url: str

    def glance(self) -> list[DeadLetter]:
        """Some of the letters, ten at most, which all others see all the while."""
        return self.take(hidden_seconds=0)

    def take(self, *, hidden_seconds: int, wait_seconds: int = 0) -> list[DeadLetter]:
        """Up to ten letters, hidden from others for so long."""
        answer = self.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=PAGE,
            VisibilityTimeout=hidden_seconds,
            WaitTimeSeconds=wait_seconds,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        return [_from_message(message) for message in answer.get("Messages", [])]

    def show_again(self, letters: Collection[DeadLetter]) -> None:
        """Let others see them at once."""
        every = list(letters)
        for start in range(0, len(every), PAGE):
            entries: list[Any] = [
                {"Id": str(number), "ReceiptHandle": letter.receipt, "VisibilityTimeout": 0}
                for number, letter in enumerate(every[start : start + PAGE])
            ]
            # One that fails shows itself again when its time is over.
            self.client.change_message_visibility_batch(QueueUrl=self.url, Entries=entries)

    def delete(self, letter: DeadLetter) -> None:
        """Take one away for good."""
        self.client.delete_message(QueueUrl=self.url, ReceiptHandle=letter.receipt)

    def count(self) -> int:
        """About how many letters there are, those that somebody just looks at among them."""
        kinds: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=kinds)
        return sum(int(number) for number in answer["Attributes"].values())


def _from_message(message: Any) -> DeadLetter:
    attributes = message.get("Attributes", {})
    reason = message.get("MessageAttributes", {}).get("reason", {})
    return DeadLetter(
        message_id=message["MessageId"],
        body=message["Body"],
        sent_at=int(attributes.get("SentTimestamp", 0)),
        receives=int(attributes.get("ApproximateReceiveCount", 0)),
        reason=reason.get("StringValue", ""),
        group=attributes.get("MessageGroupId", ""),
        receipt=message["ReceiptHandle"],
    )


@dataclass(frozen=True)
class Watch:
    """Names the letters that no worker sent away itself, each once while this process lives.

    SQS tells nothing by which a letter is new: its receives and its age count on from the queue
    that it comes from. So the process remembers, and names those that are still there once more
    after a cold start.
    """

    queues: Mapping[str, DeadLetterQueue]
    remembered: dict[str, None] = field(default_factory=dict)

    def news(self) -> Iterator[tuple[str, DeadLetter]]:
        """The letters of a glance at each queue that were not named yet, with the queue's name."""
        for name, queue in self.queues.items():
            for letter in queue.glance():
                if not letter.reason and letter.message_id not in self.remembered:
                    self._remember(letter)
                    yield name, letter

    def _remember(self, letter: DeadLetter) -> None:
        self.remembered[letter.message_id] = None
        if len(self.remembered) > MAX_REMEMBERED:
            del self.remembered[next(iter(self.remembered))]
