"""SQS behind the interface of a boto3 client: standard queues, at least once, in any order.

Sources: the API reference of each operation; "visibility timeout", "dead-letter queues" of the
Developer Guide.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from proof.model import client
from proof.model.client import Answer, Request
from proof.model.clock import Clock
from proof.model.errors import Refused
from proof.model.sqs.messages import (
    ACCOUNT,
    MAX_BATCH,
    MAX_MESSAGE_BYTES,
    MAX_VISIBILITY_SECONDS,
    Message,
    check_entries,
    check_message,
    read_message,
    size_of,
    wrong_value,
)
from proof.model.sqs.queues import Hooks, Queue, Redrive

DLQ_RETENTION_SECONDS = 14 * 24 * 60 * 60
MAX_TAGS = 50
# Fields of a queue by the attributes that `SetQueueAttributes` supports here.
CHANGEABLE = {
    "VisibilityTimeout": "visibility_seconds",
    "DelaySeconds": "delay_seconds",
    "MessageRetentionPeriod": "retention_seconds",
}


@dataclass
class Queues:
    """All queues, shared by any number of clients."""

    clock: Clock
    hooks: Hooks = field(default_factory=Hooks)
    by_url: dict[str, Queue] = field(default_factory=dict)
    base_url: str = f"http://127.0.0.1/{ACCOUNT}"

    def create(self, name: str, **options: Any) -> str:
        """Create a queue with these fields of `Queue`; return its URL."""
        url = f"{self.base_url}/{name}"
        self.by_url[url] = Queue(name, self.clock, self.hooks, **options)
        return url

    def queue(self, url: str) -> Queue:
        queue = self.by_url.get(url)
        if queue is None:
            raise Refused(
                "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist."
            )
        return queue

    def create_with_dlq(self, name: str, *, max_receives: int, **options: Any) -> tuple[str, str]:
        """Create a queue and its dead-letter queue, which keep messages for 14 days; the URLs."""
        dlq_url = self.create(f"{name}Dlq", retention_seconds=DLQ_RETENTION_SECONDS)
        redrive = Redrive(self.queue(dlq_url), max_receives)
        url = self.create(name, retention_seconds=DLQ_RETENTION_SECONDS, redrive=redrive, **options)
        return url, dlq_url


def send_message(queues: Queues, request: Request) -> Answer:
    queue = queues.queue(request["QueueUrl"])
    check_message(request)
    return _sent(queue.send(read_message(request)))


def send_message_batch(queues: Queues, request: Request) -> Answer:
    """The call succeeds even if entries fail."""
    queue = queues.queue(request["QueueUrl"])
    entries = request["Entries"]
    check_entries(entries)
    if sum(size_of(entry) for entry in entries) > MAX_MESSAGE_BYTES:
        raise Refused(
            "AWS.SimpleQueueService.BatchRequestTooLong",
            f"Batch requests cannot be longer than {MAX_MESSAGE_BYTES} bytes.",
        )
    failing = {entries[n]["Id"] for n in queues.hooks.fail_entries(queue.name, entries)}

    def send(entry: Request) -> Answer:
        if entry["Id"] in failing:
            raise Refused("InternalError", "We encountered an internal error.", status=500)
        check_message(entry)
        return _sent(queue.send(read_message(entry)))

    return _each(entries, send)


def receive_message(queues: Queues, request: Request) -> Answer:
    """The answer comes immediately: only the owner of the clock lets time pass."""
    count = request.get("MaxNumberOfMessages", 1)
    if not 1 <= count <= MAX_BATCH:
        raise wrong_value(count, "MaxNumberOfMessages", "Must be between 1 and 10")
    visibility = request.get("VisibilityTimeout")
    if visibility is not None:
        _check_visibility(visibility)
    queue = queues.queue(request["QueueUrl"])
    names = {*request.get("AttributeNames", ()), *request.get("MessageSystemAttributeNames", ())}
    found = [
        _received(message, handle, names)
        for message, handle in queue.receive(count, visibility_seconds=visibility)
    ]
    return {"Messages": found} if found else {}


def delete_message(queues: Queues, request: Request) -> Answer:
    """A message that is gone is no error."""
    queues.queue(request["QueueUrl"]).delete(request["ReceiptHandle"])
    return {}


def delete_message_batch(queues: Queues, request: Request) -> Answer:
    queue = queues.queue(request["QueueUrl"])
    check_entries(request["Entries"])

    def delete(entry: Request) -> Answer:
        queue.delete(entry["ReceiptHandle"])
        return {}

    return _each(request["Entries"], delete)


def change_message_visibility(queues: Queues, request: Request) -> Answer:
    """The timeout counts from now on."""
    _check_visibility(request["VisibilityTimeout"])
    queue = queues.queue(request["QueueUrl"])
    queue.change_visibility(request["ReceiptHandle"], request["VisibilityTimeout"])
    return {}


def change_message_visibility_batch(queues: Queues, request: Request) -> Answer:
    """The call succeeds even if entries fail."""
    queue = queues.queue(request["QueueUrl"])
    check_entries(request["Entries"])

    def change(entry: Request) -> Answer:
        _check_visibility(entry["VisibilityTimeout"])
        queue.change_visibility(entry["ReceiptHandle"], entry["VisibilityTimeout"])
        return {}

    return _each(request["Entries"], change)


def get_queue_attributes(queues: Queues, request: Request) -> Answer:
    attributes = queues.queue(request["QueueUrl"]).attributes()
    chosen = _chosen(attributes, request.get("AttributeNames", ()))
    return {"Attributes": chosen} if chosen else {}


def set_queue_attributes(queues: Queues, request: Request) -> Answer:
    """Change how long messages are hidden, delayed and kept."""
    queue = queues.queue(request["QueueUrl"])
    for name, value in request["Attributes"].items():
        if name not in CHANGEABLE:
            raise Refused("InvalidAttributeName", f"Unknown Attribute {name}.")
        setattr(queue, CHANGEABLE[name], int(value))
    return {}


def tag_queue(queues: Queues, request: Request) -> Answer:
    queue = queues.queue(request["QueueUrl"])
    tags = {**queue.tags, **request["Tags"]}
    if len(tags) > MAX_TAGS:
        raise Refused("InvalidParameterValue", f"Too many tags added for queue {queue.name}.")
    queue.tags = tags
    return {}


def untag_queue(queues: Queues, request: Request) -> Answer:
    """A missing tag is no error."""
    tags = queues.queue(request["QueueUrl"]).tags
    for key in request["TagKeys"]:
        tags.pop(key, None)
    return {}


def list_queue_tags(queues: Queues, request: Request) -> Answer:
    tags = queues.queue(request["QueueUrl"]).tags
    return {"Tags": dict(tags)} if tags else {}


def purge_queue(queues: Queues, request: Request) -> Answer:
    queues.queue(request["QueueUrl"]).purge()
    return {}


def get_queue_url(queues: Queues, request: Request) -> Answer:
    url = f"{queues.base_url}/{request['QueueName']}"
    queues.queue(url)
    return {"QueueUrl": url}


class Client(client.Client):
    """A client on queues, which any number of clients may share."""

    service = "sqs"
    operations: ClassVar = {
        "SendMessage": send_message,
        "SendMessageBatch": send_message_batch,
        "ReceiveMessage": receive_message,
        "DeleteMessage": delete_message,
        "DeleteMessageBatch": delete_message_batch,
        "ChangeMessageVisibility": change_message_visibility,
        "ChangeMessageVisibilityBatch": change_message_visibility_batch,
        "GetQueueAttributes": get_queue_attributes,
        "SetQueueAttributes": set_queue_attributes,
        "TagQueue": tag_queue,
        "UntagQueue": untag_queue,
        "ListQueueTags": list_queue_tags,
        "PurgeQueue": purge_queue,
        "GetQueueUrl": get_queue_url,
    }


def _sent(message: Message) -> Answer:
    return {"MessageId": message.id, "MD5OfMessageBody": _md5(message.body)}


def _received(message: Message, handle: str, names: set[str]) -> Answer:
    answer: Answer = {
        "MessageId": message.id,
        "ReceiptHandle": handle,
        "MD5OfBody": _md5(message.body),
        "Body": message.body,
    }
    if system := _chosen(message.system_attributes(), names):
        answer["Attributes"] = system
    if message.attributes:
        answer["MessageAttributes"] = message.attributes
    return answer


def _chosen(attributes: dict[str, str], names: Sequence[str] | set[str]) -> dict[str, str]:
    """The attributes that a request names; `All` names all of them."""
    if "All" in names:
        return attributes
    return {name: value for name, value in attributes.items() if name in names}


def _each(entries: Sequence[Request], run: Callable[[Request], Answer]) -> Answer:
    """The answer to a batch whose entries succeed or fail one by one."""
    done, failed = [], []
    for entry in entries:
        try:
            done.append({"Id": entry["Id"], **run(entry)})
        except Refused as refused:
            failed.append(
                {
                    "Id": entry["Id"],
                    "SenderFault": refused.status < 500,
                    "Code": refused.code,
                    "Message": refused.message,
                }
            )
    return {"Successful": done, "Failed": failed} if failed else {"Successful": done}


def _check_visibility(seconds: int) -> None:
    if not 0 <= seconds <= MAX_VISIBILITY_SECONDS:
        raise wrong_value(seconds, "VisibilityTimeout", "Must be between 0 and 43200")


def _md5(body: str) -> str:
    return hashlib.md5(body.encode(), usedforsecurity=False).hexdigest()
