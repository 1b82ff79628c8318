"""Observes dead letters that operators move, drop and restore.

No letter may vanish: before it is deleted, it must be in its queue again, or in a file. And each
must be traceable to its first message.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fanfold import contract, names
from fanfold.messages import MAX_FIRST_SENT_MS, first_sent_at
from proof.simulation.clients.bodies import content_of
from proof.simulation.world.lambdas import dlq_url, queue_url

if TYPE_CHECKING:
    from proof.model.sqs.messages import Message
    from proof.simulation.world.world import World

Sent = Collection[tuple[str, str]]  # the queue's URL, and the body


@dataclass
class Letters:
    """The dead letters of one run."""

    world: World
    files: list[Path] = field(default_factory=list)  # one may not exist, if a drop was cut short
    # Body and time (epoch ms) of each message that was sent for the first time, by its id.
    origins: dict[str, tuple[str, int]] = field(default_factory=dict)
    # Dropped, never restored letters: bodies with the times of their requests, in epoch ms.
    lost: list[tuple[str, int]] = field(default_factory=list)

    def sent(self, queue: str, message: Message) -> None:
        """A message was sent. If it was rejected or moved back, it must name its first message."""
        first_id, carried = (
            message.attributes.get(name, {}).get("StringValue", "")
            for name in (contract.FIRST_MESSAGE_ID, contract.FIRST_SENT_AT)
        )
        sent_ms = int(message.sent_at * 1000)
        first_ms = first_sent_at(carried, sent_at=sent_ms)
        if not first_id and "reason" not in message.attributes:
            self.origins[message.id] = message.body, first_ms
            return
        body, origin_ms = self.origins.get(first_id, ("", 0))
        is_known = first_ms == origin_ms or sent_ms - origin_ms > MAX_FIRST_SENT_MS
        if message.body != body or not is_known:
            self.world.observer.violations.append(
                f"A message of {queue} cannot be traced to its first one: {message.body[:80]}."
            )

    def before(self, operation: str, request: dict[str, Any], sent: Sent) -> None:
        """An operator, who has `sent` these messages, is about to call SQS."""
        if operation == "send_message_batch":
            for message in request["Entries"]:
                self._check_age(message)
            return
        if operation != "delete_message_batch":
            return
        handles = [entry["ReceiptHandle"] for entry in request["Entries"]]
        url = request["QueueUrl"]
        source = next(queue_url(each) for each in names.QUEUES if dlq_url(each) == url)
        in_files = {line["body"] for file in self.files for line in read(file)}
        for message in self.world.queues.queue(url).received(handles):
            if message.body not in in_files and (source, message.body) not in sent:
                self.world.observer.violations.append(
                    f"An operator deletes a letter that is nowhere else: {message.body[:80]}."
                )

    def _check_age(self, request: dict[str, Any]) -> None:
        """Check that no event is sent back that workers would count as new."""
        body = request["MessageBody"]
        attribute = request.get("MessageAttributes", {}).get(contract.FIRST_SENT_AT, {})
        age_ms = self.world.clock.now_ms() - int(attribute.get("StringValue", "0"))
        if content_of(body).get("type") in contract.EVENTS and age_ms > MAX_FIRST_SENT_MS:
            self.world.observer.violations.append(
                f"An operator sends a letter that would count as new: {body[:80]}."
            )

    def lose(self, file: Path) -> None:
        """Note that nobody will restore a file."""
        for line in read(file):
            first_ms = int(line["attributes"][contract.FIRST_SENT_AT])
            self.lost.append((line["body"], first_ms))
            content = content_of(line["body"])
            if content.get("type") == contract.RELATION_SETTLE:
                self.world.damage.unrelated.add((content["user_id"], content["publisher_id"]))


def read(file: Path) -> list[dict[str, Any]]:
    """The letters of a file, if there is one."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
