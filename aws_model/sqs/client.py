"""SQS as a boto3 client shows it: standard queues, at least once, in any order.

Sources: the API reference of each operation; "Amazon SQS message quotas", "visibility timeout",
"dead-letter queues", "fair queues" of the Developer Guide.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_model import errors
from aws_model.clock import Clock
from aws_model.errors import Refused
from aws_model.sqs.queues import Hooks, Message, Queue, Redrive

SERVICE = "sqs"
MAX_BATCH = 10
MAX_MESSAGE_BYTES = 1024 * 1024
MAX_DELAY_SECONDS = 900
MAX_VISIBILITY_SECONDS = 12 * 60 * 60
MAX_GROUP_CHARS = 128
ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
ACCOUNT = "123456789012"
# Text may hold these characters only: tab, line feed, carriage return, and no half surrogate pairs.
BODY = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")

Answer = dict[str, Any]


@dataclass
class Queues:
    """All queues behind any number of clients."""

    clock: Clock
    hooks: Hooks = field(default_factory=Hooks)
    by_url: dict[str, Queue] = field(default_factory=dict)
    base_url: str = f"http://127.0.0.1/{ACCOUNT}"

    def create(
        self,
        name: str,
        *,
        visibility_seconds: float = 30,
        retention_seconds: float = 4 * 24 * 60 * 60,
        delay_seconds: float = 0,
        redrive: Redrive | None = None,
    ) -> str:
        """Make a queue; its URL comes back."""
        url = f"{self.base_url}/{name}"
        self.by_url[url] = Queue(
            name,
            self.clock,
            self.hooks,
            visibility_seconds=visibility_seconds,
            retention_seconds=retention_seconds,
            delay_seconds=delay_seconds,
            redrive=redrive,
        )
        return url

    def queue(self, url: str) -> Queue:
        """A queue by its URL."""
        queue = self.by_url.get(url)
        if queue is None:
            raise Refused(
                "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist."
            )
        return queue

    def create_with_dlq(
        self, name: str, *, max_receives: int, visibility_seconds: float = 30
    ) -> tuple[str, str]:
        """Make a queue with its own dead-letter queue, both keeping messages for 14 days."""
        fortnight = 14 * 24 * 60 * 60
        dlq_url = self.create(f"{name}Dlq", retention_seconds=fortnight)
        url = self.create(
            name,
            visibility_seconds=visibility_seconds,
            retention_seconds=fortnight,
            redrive=Redrive(self.queue(dlq_url), max_receives),
        )
        return url, dlq_url


class Client:
    """An SQS client on queues of the model; `validates` as for DynamoDB's."""

    def __init__(self, queues: Queues, *, validates: bool = True) -> None:
        self.queues = queues
        self.validates = validates
        self.exceptions = errors.exceptions(SERVICE)

    def send_message(self, **request: Any) -> Answer:
        """SendMessage."""
        return self._call("SendMessage", self._send, request)

    def send_message_batch(self, **request: Any) -> Answer:
        """SendMessageBatch: the answer is a success even if entries failed."""
        return self._call("SendMessageBatch", self._send_batch, request)

    def receive_message(self, **request: Any) -> Answer:
        """ReceiveMessage; it never waits, for time is the simulation's."""
        return self._call("ReceiveMessage", self._receive, request)

    def delete_message(self, **request: Any) -> Answer:
        """DeleteMessage; a message that is gone already is no error."""
        return self._call("DeleteMessage", self._delete, request)

    def delete_message_batch(self, **request: Any) -> Answer:
        """DeleteMessageBatch."""
        return self._call("DeleteMessageBatch", self._delete_batch, request)

    def change_message_visibility(self, **request: Any) -> Answer:
        """ChangeMessageVisibility, from now on."""
        return self._call("ChangeMessageVisibility", self._change_visibility, request)

    def get_queue_attributes(self, **request: Any) -> Answer:
        """GetQueueAttributes."""
        return self._call("GetQueueAttributes", self._attributes, request)

    def purge_queue(self, **request: Any) -> Answer:
        """PurgeQueue."""
        return self._call("PurgeQueue", self._purge, request)

    def get_queue_url(self, **request: Any) -> Answer:
        """GetQueueUrl."""
        return self._call("GetQueueUrl", self._url, request)

    def call(self, operation: str, request: dict[str, Any]) -> Answer:
        """Any operation by its name on the wire, such as `SendMessage`."""
        snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in operation).lstrip("_")
        answer: Answer = getattr(self, snake)(**request)
        return answer

    def _call(
        self, name: str, operation: Callable[[dict[str, Any]], Answer], request: dict[str, Any]
    ) -> Answer:
        if self.validates:
            errors.check_parameters(SERVICE, name, request)
        try:
            answer = operation(request)
        except Refused as refused:
            raise errors.client_error(SERVICE, name, refused) from None
        answer["ResponseMetadata"] = errors.metadata()
        return answer

    def _send(self, request: dict[str, Any]) -> Answer:
        queue = self.queues.queue(request["QueueUrl"])
        check_message(request)
        return _sent(queue.send(read_message(request)))

    def _send_batch(self, request: dict[str, Any]) -> Answer:
        queue = self.queues.queue(request["QueueUrl"])
        entries = request["Entries"]
        check_entries(entries)
        if sum(size_of(entry) for entry in entries) > MAX_MESSAGE_BYTES:
            raise Refused(
                "AWS.SimpleQueueService.BatchRequestTooLong",
                f"Batch requests cannot be longer than {MAX_MESSAGE_BYTES} bytes.",
            )
        spoiled = set(self.queues.hooks.fail_entries(queue.name, entries))
        done, failed = [], []
        for number, entry in enumerate(entries):
            try:
                if number in spoiled:
                    raise Refused("InternalError", "We encountered an internal error.", status=500)
                check_message(entry)
            except Refused as refused:
                failed.append(_failure(entry, refused))
            else:
                done.append({"Id": entry["Id"], **_sent(queue.send(read_message(entry)))})
        return _results(done, failed)

    def _receive(self, request: dict[str, Any]) -> Answer:
        count = request.get("MaxNumberOfMessages", 1)
        if not 1 <= count <= MAX_BATCH:
            raise _wrong_value(count, "MaxNumberOfMessages", "Must be between 1 and 10")
        visibility = request.get("VisibilityTimeout")
        if visibility is not None:
            _check_visibility(visibility)
        queue = self.queues.queue(request["QueueUrl"])
        names = {
            *request.get("AttributeNames", ()),
            *request.get("MessageSystemAttributeNames", ()),
        }
        found = [
            _received(message, handle, names)
            for message, handle in queue.receive(count, visibility_seconds=visibility)
        ]
        return {"Messages": found} if found else {}

    def _delete(self, request: dict[str, Any]) -> Answer:
        self.queues.queue(request["QueueUrl"]).delete(request["ReceiptHandle"])
        return {}

    def _delete_batch(self, request: dict[str, Any]) -> Answer:
        queue = self.queues.queue(request["QueueUrl"])
        check_entries(request["Entries"])
        done, failed = [], []
        for entry in request["Entries"]:
            try:
                queue.delete(entry["ReceiptHandle"])
            except Refused as refused:
                failed.append(_failure(entry, refused))
            else:
                done.append({"Id": entry["Id"]})
        return _results(done, failed)

    def _change_visibility(self, request: dict[str, Any]) -> Answer:
        _check_visibility(request["VisibilityTimeout"])
        queue = self.queues.queue(request["QueueUrl"])
        queue.change_visibility(request["ReceiptHandle"], request["VisibilityTimeout"])
        return {}

    def _attributes(self, request: dict[str, Any]) -> Answer:
        attributes = self.queues.queue(request["QueueUrl"]).attributes()
        wanted = request.get("AttributeNames", ())
        if "All" not in wanted:
            attributes = {name: value for name, value in attributes.items() if name in wanted}
        return {"Attributes": attributes} if attributes else {}

    def _purge(self, request: dict[str, Any]) -> Answer:
        self.queues.queue(request["QueueUrl"]).purge()
        return {}

    def _url(self, request: dict[str, Any]) -> Answer:
        url = f"{self.queues.base_url}/{request['QueueName']}"
        self.queues.queue(url)
        return {"QueueUrl": url}


def size_of(entry: dict[str, Any]) -> int:
    """Bytes of a message: its body, and names, types and values of its attributes."""
    total = len(entry["MessageBody"].encode("utf-8", "surrogatepass"))
    for name, attribute in entry.get("MessageAttributes", {}).items():
        value = attribute.get("StringValue", attribute.get("BinaryValue", b""))
        total += len(name.encode()) + len(attribute["DataType"].encode())
        total += len(value.encode() if isinstance(value, str) else value)
    return total


def check_message(entry: dict[str, Any]) -> None:
    """Refuse a message that SQS does not take."""
    body = entry["MessageBody"]
    if not body:
        raise Refused("MissingParameter", "The request must contain the parameter MessageBody.")
    if not BODY.fullmatch(body):
        raise Refused("InvalidMessageContents", "Invalid characters in the message body.")
    if size_of(entry) > MAX_MESSAGE_BYTES:
        raise Refused(
            "InvalidParameterValue",
            f"One or more parameters are invalid. Reason: Message must be shorter than "
            f"{MAX_MESSAGE_BYTES} bytes.",
        )
    delay = entry.get("DelaySeconds", 0)
    if not 0 <= delay <= MAX_DELAY_SECONDS:
        raise _wrong_value(delay, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900")
    group = entry.get("MessageGroupId")
    if group is not None and not 1 <= len(group) <= MAX_GROUP_CHARS:
        raise _wrong_value(group, "MessageGroupId", "It can be 1 to 128 characters")


def check_entries(entries: Sequence[dict[str, Any]]) -> None:
    """Refuse a batch as a whole: too few or many entries, or ids that do not tell them apart."""
    prefix = "AWS.SimpleQueueService"
    if not entries:
        raise Refused(f"{prefix}.EmptyBatchRequest", "There should be at least one entry.")
    if len(entries) > MAX_BATCH:
        raise Refused(
            f"{prefix}.TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {MAX_BATCH}. You have sent {len(entries)}.",
        )
    ids = [entry["Id"] for entry in entries]
    if not all(ENTRY_ID.fullmatch(each) for each in ids):
        raise Refused(
            f"{prefix}.InvalidBatchEntryId",
            "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
            "It can be at most 80 letters long.",
        )
    if len(set(ids)) < len(ids):
        raise Refused(f"{prefix}.BatchEntryIdsNotDistinct", "Id repeated.")


def read_message(entry: dict[str, Any]) -> Message:
    """The message of a request that was checked."""
    return Message(
        body=entry["MessageBody"],
        attributes=dict(entry.get("MessageAttributes", {})),
        group=entry.get("MessageGroupId"),
        delay_seconds=entry.get("DelaySeconds"),
    )


def _sent(message: Message) -> Answer:
    return {"MessageId": message.id, "MD5OfMessageBody": _md5(message.body)}


def _received(message: Message, handle: str, names: set[str]) -> Answer:
    system = message.system_attributes()
    if "All" not in names:
        system = {name: value for name, value in system.items() if name in names}
    answer: Answer = {
        "MessageId": message.id,
        "ReceiptHandle": handle,
        "MD5OfBody": _md5(message.body),
        "Body": message.body,
    }
    if system:
        answer["Attributes"] = system
    if message.attributes:
        answer["MessageAttributes"] = message.attributes
    return answer


def _results(done: list[Answer], failed: list[Answer]) -> Answer:
    answer: Answer = {"Successful": done}
    if failed:
        answer["Failed"] = failed
    return answer


def _failure(entry: dict[str, Any], refused: Refused) -> Answer:
    return {
        "Id": entry["Id"],
        "SenderFault": refused.status < 500,
        "Code": refused.code,
        "Message": refused.message,
    }


def _check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= MAX_VISIBILITY_SECONDS:
        raise _wrong_value(seconds, "VisibilityTimeout", "Must be between 0 and 43200")


def _wrong_value(value: object, name: str, reason: str) -> Refused:
    return Refused(
        "InvalidParameterValue",
        f"Value {value} for parameter {name} is invalid. Reason: {reason}.",
    )


def _md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
