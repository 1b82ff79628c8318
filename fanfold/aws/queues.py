"""Sending to a queue: either a message is sent, or the caller gets an error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fanfold import clock
from fanfold.aws.retries import SEND, for_each
from fanfold.errors import Unsent
from fanfold.messages import Message

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from mypy_boto3_sqs import SQSClient

# SQS's limit for SendMessageBatch.
MAX_BATCH = 10
# SQS's limit.
MAX_DELAY_SECONDS = 900


@dataclass(frozen=True)
class WorkQueue:
    client: SQSClient
    url: str

    def send(self, *messages: Message, threads: Executor | None = None) -> None:
        """Send all messages in batches; raises `Unsent` if the queue refuses any in each attempt.

        With `threads`, batches are sent concurrently.
        """
        starts = range(0, len(messages), MAX_BATCH)
        batches = [messages[start : start + MAX_BATCH] for start in starts]
        for _ in for_each(threads, self._send_batch, batches):
            pass  # iterating raises a batch's error

    def _send_batch(self, messages: Sequence[Message]) -> None:
        left: list[Any] = [
            {
                "Id": str(number),
                "MessageBody": json.dumps(message.content, separators=(",", ":")),
                "MessageGroupId": message.group,
                "DelaySeconds": min(MAX_DELAY_SECONDS, message.delay_seconds),
            }
            for number, message in enumerate(messages)
        ]
        for _ in clock.tries(*SEND):
            answer = self.client.send_message_batch(QueueUrl=self.url, Entries=left)
            # SQS answers 200 although entries have failed.
            failed = {entry["Id"] for entry in answer.get("Failed", [])}
            if not failed:
                return
            left = [entry for entry in left if entry["Id"] in failed]
        raise Unsent(f"{len(left)} of {len(messages)} messages were refused by the queue.")
