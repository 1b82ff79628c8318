"""Messages of SQS: limits, checks and attributes.

Sources: "Amazon SQS message quotas" of the Developer Guide; the API reference of SendMessage.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from proof.model.errors import Refused

MAX_BATCH = 10
MAX_MESSAGE_BYTES = 1024 * 1024
MAX_DELAY_SECONDS = 900
MAX_ATTRIBUTES = 10
MAX_VISIBILITY_SECONDS = 12 * 60 * 60
MAX_GROUP_CHARS = 128
ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
REGION, ACCOUNT = "eu-central-1", "123456789012"
# The characters that a body may have: three control characters, and no surrogates.
BODY = re.compile("[\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]*")
SENDER = "AIDASSYFHUBOBT7F4XT75"


@dataclass(eq=False)
class Message:
    """One message, or a copy of it. Times are seconds since the epoch.

    `handle` is that of the latest receive; `hidden` numbers the latest time it was hidden.
    """

    body: str
    attributes: dict[str, Any] = field(default_factory=dict)
    group: str | None = None
    delay_seconds: float | None = None
    id: str = ""
    sent_at: float = 0.0
    first_received_at: float | None = None
    receives: int = 0
    handle: str = ""
    hidden: int = 0
    dead_letter_source: str = ""
    sender: str = SENDER
    late_since: float = math.inf  # when it should have been received first, if SQS is late

    def system_attributes(self) -> dict[str, str]:
        """The message's system attributes, times in milliseconds."""
        found = {
            "SenderId": self.sender,
            "SentTimestamp": str(int(self.sent_at * 1000)),
            "ApproximateReceiveCount": str(self.receives),
        }
        if self.first_received_at is not None:
            found["ApproximateFirstReceiveTimestamp"] = str(int(self.first_received_at * 1000))
        if self.group is not None:
            found["MessageGroupId"] = self.group
        if self.dead_letter_source:
            found["DeadLetterQueueSourceArn"] = arn_of(self.dead_letter_source)
        return found


def arn_of(name: str) -> str:
    """The ARN of a queue."""
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def size_of(entry: dict[str, Any]) -> int:
    """Bytes of a message: its body, and names, types and values of its attributes."""
    total = len(entry["MessageBody"].encode("utf-8", "surrogatepass"))
    for name, attribute in entry.get("MessageAttributes", {}).items():
        value = attribute.get("StringValue", attribute.get("BinaryValue", b""))
        total += len(name.encode()) + len(attribute["DataType"].encode())
        total += len(value.encode() if isinstance(value, str) else value)
    return total


def check_message(entry: dict[str, Any]) -> None:
    """Refuse a message that SQS does not accept."""
    body = entry["MessageBody"]
    if not body:
        raise Refused("MissingParameter", "The request must contain the parameter MessageBody.")
    if not BODY.fullmatch(body):
        raise Refused("InvalidMessageContents", "Invalid characters in the message body.")
    if size_of(entry) > MAX_MESSAGE_BYTES:
        raise Refused(
            "InvalidParameterValue",
            "One or more parameters are invalid. Reason: Message must be shorter than "
            f"{MAX_MESSAGE_BYTES} bytes.",
        )
    if (count := len(entry.get("MessageAttributes", {}))) > MAX_ATTRIBUTES:
        raise Refused(
            "InvalidParameterValue",
            f"Number of message attributes [{count}] exceeds the allowed maximum "
            f"[{MAX_ATTRIBUTES}].",
        )
    delay = entry.get("DelaySeconds", 0)
    if not 0 <= delay <= MAX_DELAY_SECONDS:
        raise wrong_value(delay, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900")
    group = entry.get("MessageGroupId")
    if group is not None and not 1 <= len(group) <= MAX_GROUP_CHARS:
        raise wrong_value(group, "MessageGroupId", "It can be 1 to 128 characters")


def check_entries(entries: Sequence[dict[str, Any]]) -> None:
    """Refuse an entire batch: too few or too many entries, or invalid or duplicate ids."""
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
    return Message(
        body=entry["MessageBody"],
        attributes=dict(entry.get("MessageAttributes", {})),
        group=entry.get("MessageGroupId"),
        delay_seconds=entry.get("DelaySeconds"),
    )


def wrong_value(value: object, name: str, reason: str) -> Refused:
    return Refused(
        "InvalidParameterValue", f"Value {value} for parameter {name} is invalid. Reason: {reason}."
    )
