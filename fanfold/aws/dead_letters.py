"""Dead-letter queues: send messages with a reason, and read them without removing any.

They have no redrive policy of their own, so a message may be received any number of times.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from fanfold import clock, contract, json_text, names, times
from fanfold.aws.senders import UNKNOWN, chain
from fanfold.errors import BadInput
from fanfold.messages import MAX_FIRST_SENT_MS, first_message_id, first_sent_at, sha256

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# SQS's limit for one call.
PAGE = 10
# Long polling queries all servers of SQS, so an empty answer means an empty queue.
WAIT_SECONDS = 1
# SQS's limit for a message, attributes included.
MAX_MESSAGE_BYTES = 1_048_576
MAX_REASON_CHARS = 400
# The kinds of letters that a worker sent: one breaks the contract and always will, or a worker gave
# up on it and a retry may help. A letter that SQS moved has no kind, and may be retried: one that
# breaks the contract comes back with its kind.
CONTRACT = "contract"
GAVE_UP = "gave_up"
# A letter counts as too old this much earlier: it is sent back later than it is checked, and by the
# clock of SQS. AWS refuses calls from a clock that is 15 minutes off.
TOO_OLD_MARGIN_MS = 60 * 60 * 1000
# Ids of reported messages that a process remembers: far more than it sees in its lifetime.
MAX_REPORTED = 1_000

_DAY_MS = 24 * 60 * 60 * 1000
_TYPES = (*contract.EVENTS, *contract.COMMANDS)


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """A message of a dead-letter queue, as one receive returned it."""

    message_id: str
    first_message_id: str  # as the sender knows it: it outlives rejections and redrives
    body: str
    sent_at: int  # epoch milliseconds
    first_sent_at: int  # epoch milliseconds of the sender's first send: it outlives them, too
    receives: int  # including those from the queue that it comes from
    reason: str  # why a worker rejected it; empty if SQS moved it
    kind: str  # `CONTRACT`, `GAVE_UP` or empty
    group: str
    receipt: str
    senders: str = UNKNOWN  # who sent it, the latest first (`fanfold/aws/senders.py`)

    @property
    def size(self) -> int:
        """Size of the body in bytes."""
        return _size(self.body)

    @property
    def sha256(self) -> str:
        return sha256(self.body)

    @property
    def kept_until(self) -> int:
        """The epoch millisecond at which SQS deletes it.

        `sent_at` is when a worker rejected it or, if SQS moved it, when it was sent to its queue.
        """
        return self.sent_at + names.QUEUE_DAYS * _DAY_MS

    @property
    def type(self) -> str:
        """The type that the body names, or an empty text if it names none that is known."""
        known = self._content().get("type")
        return known if isinstance(known, str) and known in _TYPES else ""

    def is_expired(self, *, now: int, retention_days: int) -> bool:
        """Whether it publishes a post whose entries would already have expired."""
        content = self._content()
        if content.get("type") != contract.POST_PUBLISHED:
            return False
        try:
            published_at = times.to_ms(content["published_at"])
        except (KeyError, TypeError, ValueError, BadInput):
            published_at = self.first_sent_at  # without a time; if it has a wrong one, PLAN says so
        return min(published_at, self.first_sent_at) + retention_days * _DAY_MS <= now

    def is_too_old(self, *, now: int) -> bool:
        """Whether workers would take this event for a new one, because it was sent so long ago."""
        believed_until = self.first_sent_at + MAX_FIRST_SENT_MS - TOO_OLD_MARGIN_MS
        return self.type in contract.EVENTS and believed_until <= now

    def _content(self) -> dict[str, Any]:
        """The body's JSON object, which is empty if the body holds none."""
        try:
            return json_text.read(self.body, what="The letter")
        except BadInput:
            return {}


@dataclass(frozen=True)
class Count:
    """About how many letters a queue holds."""

    visible: int
    hidden: int  # received by somebody else, or by somebody who was killed

    @property
    def total(self) -> int:
        return self.visible + self.hidden

    def missed(self, found: int, *, after: Count, still_there: int) -> int:
        """About how many of these letters a reader missed that `found` some.

        `after` is the count afterwards, which includes `still_there` of those found. Visible ones
        count as well: another reader may have released them meanwhile.
        """
        return max(0, min(self.total - found, after.total - still_there))


@dataclass(frozen=True)
class DeadLetterQueue:
    client: SQSClient
    url: str

    def add(
        self,
        body: str,
        *,
        reason: str,
        kind: str,
        first_sent_at: int,
        first_message_id: str,
        senders: str,
        group: str,
    ) -> None:
        """Send a rejected message, with what is known about it as far as it fits."""
        about = {
            "kind": kind,
            contract.FIRST_SENDERS: senders,
            contract.FIRST_SENT_AT: str(first_sent_at),
            contract.FIRST_MESSAGE_ID: first_message_id,
            contract.BODY_SHA256: sha256(body),
            "reason": reason[:MAX_REASON_CHARS],
        }
        send(self.client, self.url, body, about, group=group)

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

    def pages(self, known: Container[str], *, hidden_seconds: int) -> Iterator[list[DeadLetter]]:
        """Pages of letters, each hidden for `hidden_seconds`, until there is none.

        It also ends after a whole visibility time without a letter that is not `known`: those that
        stay come round again, and a large queue always has one.
        """
        last_new = clock.monotonic()
        while page := self.receive(hidden_seconds=hidden_seconds, wait_seconds=WAIT_SECONDS):
            if any(letter.message_id not in known for letter in page):
                last_new = clock.monotonic()
            elif clock.monotonic() - last_new > hidden_seconds:
                self.release(page)
                return
            yield page

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

    def delete_page(self, messages: Sequence[DeadLetter]) -> list[DeadLetter]:
        """Delete up to ten messages; return those that SQS says it has deleted."""
        entries: list[Any] = [
            {"Id": str(number), "ReceiptHandle": message.receipt}
            for number, message in enumerate(messages)
        ]
        answer = self.client.delete_message_batch(QueueUrl=self.url, Entries=entries)
        # SQS answers 200 although entries have failed.
        return [messages[int(entry["Id"])] for entry in answer.get("Successful", [])]

    def count(self) -> Count:
        kinds: Any = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=kinds)
        return Count(*(int(answer["Attributes"][kind]) for kind in kinds))


def send(
    client: SQSClient, url: str, body: str, attributes: Mapping[str, str], *, group: str
) -> None:
    """Send a message with as many of its attributes as fit beside its body, in their order."""
    client.send_message(QueueUrl=url, **fitting(body, attributes, group=group))


def fitting(body: str, attributes: Mapping[str, str], *, group: str) -> Any:
    """A message for a call of SQS, as `send` sends it."""
    room = MAX_MESSAGE_BYTES - _size(body)
    fit: dict[str, Any] = {}
    for name, value in attributes.items():
        room -= _size(name) + len("String") + _size(value)
        if room < 0:
            break
        fit[name] = {"DataType": "String", "StringValue": value}
    fair: dict[str, Any] = {"MessageGroupId": group} if group else {}
    return {"MessageBody": body, "MessageAttributes": fit, **fair}


def size_of(message: Any) -> int:
    """The bytes of SQS's limit that a message from `fitting` takes."""
    attributes = message["MessageAttributes"].items()
    return _size(message["MessageBody"]) + sum(
        _size(name) + len("String") + _size(value["StringValue"]) for name, value in attributes
    )


def _size(text: str) -> int:
    """Size in bytes; half a surrogate pair, which JSON may hold, counts too."""
    return len(text.encode("utf-8", "surrogatepass"))


def _from_message(message: Any) -> DeadLetter:
    attributes, more = message.get("Attributes", {}), message.get("MessageAttributes", {})
    sent_at = int(attributes.get("SentTimestamp", 0))

    def carried(name: str) -> str:
        return str(more.get(name, {}).get("StringValue") or "")

    # What SQS moved has the attributes of its sender, or of a rejection before it was moved back.
    about = {} if "DeadLetterQueueSourceArn" in attributes else more
    return DeadLetter(
        message_id=message["MessageId"],
        body=message["Body"],
        sent_at=sent_at,
        first_message_id=first_message_id(
            carried(contract.FIRST_MESSAGE_ID), message_id=message["MessageId"]
        ),
        first_sent_at=first_sent_at(carried(contract.FIRST_SENT_AT), sent_at=sent_at),
        receives=int(attributes.get("ApproximateReceiveCount", 0)),
        reason=about.get("reason", {}).get("StringValue", ""),
        kind=about.get("kind", {}).get("StringValue", ""),
        group=attributes.get("MessageGroupId", ""),
        receipt=message["ReceiptHandle"],
        senders=_senders(attributes, carried(contract.FIRST_SENDERS)),
    )


def _senders(attributes: Mapping[str, str], carried: str) -> str:
    """Who sent a letter. One that SQS moved still has its sender; one that a worker sent names it.

    If there was no room for the name, the worker counts as the sender, and no rule allows it.
    """
    if "DeadLetterQueueSourceArn" in attributes or not carried:
        return chain(attributes.get("SenderId", ""), carried)
    return carried


Found: TypeAlias = tuple[str, DeadLetter]  # with the name of its queue


@dataclass(frozen=True)
class DeadLetterReports:
    """Finds the messages without a reason, each once in the life of this process.

    Nothing in a message says when it reached the dead-letter queue: its receives and its age
    include those of the queue that it comes from. So the process remembers what it has reported,
    and reports it again after a cold start.
    """

    queues: Mapping[str, DeadLetterQueue]
    reported: dict[str, None] = field(default_factory=dict)  # message ids, the oldest first

    def peek(self) -> list[Found]:
        """Up to ten messages of each queue, with its name; SQS chooses which."""
        return [(name, message) for name, queue in self.queues.items() for message in queue.peek()]

    def new(self, found: Iterable[Found]) -> Iterator[Found]:
        """Those without a reason that are not reported yet."""
        for name, message in found:
            if not message.reason and message.message_id not in self.reported:
                self.reported[message.message_id] = None
                if len(self.reported) > MAX_REPORTED:
                    del self.reported[next(iter(self.reported))]
                yield name, message

    @staticmethod
    def oldest_seconds(found: Iterable[Found], *, now_ms: int) -> float:
        """Since the oldest was sent, as SQS counts its retention; 0 if there is none."""
        return max(((now_ms - message.sent_at) / 1000 for _, message in found), default=0.0)
