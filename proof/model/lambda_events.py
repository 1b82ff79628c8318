"""What Lambda passes to a function: the event of a batch of SQS messages, and the context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from proof.model.sqs.messages import ACCOUNT, REGION, arn_of

NEVER_RECEIVED_BEFORE = {"ApproximateReceiveCount": "1", "SentTimestamp": "0"}


@dataclass
class Context:
    """The context of an invocation, as far as handlers and Powertools read it."""

    ends_at: float = 60.0  # in seconds of the clock `now`
    now: Callable[[], float] = lambda: 0.0
    function_name: str = "function"
    memory_limit_in_mb: int = 512
    invoked_function_arn: str = f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:function"
    aws_request_id: str = "52fdfc07-2182-454f-963f-5f0f9a621d72"

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.ends_at - self.now()) * 1000))


def sqs_event(queue: str, messages: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The event with `messages`, each in the form of ReceiveMessage.

    `MessageId` and `Body` suffice; without `Attributes`, it is the first receive.
    """
    return {"Records": [_record(queue, message) for message in messages]}


def _record(queue: str, message: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message.get("ReceiptHandle", ""),
        "body": message["Body"],
        "attributes": message.get("Attributes", NEVER_RECEIVED_BEFORE),
        "messageAttributes": {
            name: {key[0].lower() + key[1:]: value for key, value in attribute.items()}
            for name, attribute in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message.get("MD5OfBody", ""),
        "eventSource": "aws:sqs",
        "eventSourceARN": arn_of(queue),
        "awsRegion": REGION,
    }
