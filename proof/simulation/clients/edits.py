"""Edits as their senders know them: contents, times and outcomes."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from fanfold import contract, names
from fanfold.messages import first_sent_at
from proof.model.sqs.messages import Message
from proof.model.sqs.queues import DELETED

# Any other refusal may be for a repeat whose first call took effect, but lost its answer.
REFUSED = (404,)


@dataclass(eq=False)
class Edit:
    """One request, or one message with all its copies."""

    user: str
    ref_id: str
    content: Any
    stamp: int  # epoch milliseconds, by the clock of API Gateway or of SQS
    begun: int = 0  # of a request: in turns of the scheduler
    status: int = 0  # of a request that was answered
    done_ms: float = math.inf  # from then on, readers see it or a later one
    ended: float = math.inf  # of a request: in turns of the scheduler
    is_over: bool = False  # of a request: all its writes have landed
    is_lost: bool = False  # of a message: a dead letter; it may have taken effect

    @property
    def is_possible(self) -> bool:
        """Whether it may have taken effect.

        A request answered with 404 may still edit a post that is accepted in the same seconds, if
        its write lands late (docs/api.md).
        """
        return not (self.is_over and self.status in REFUSED)

    def answered(self, status: int, *, turn: int, now_ms: float, lands_ms: float) -> None:
        """Note the answer to a request, whose last write lands at `lands_ms`."""
        self.status, self.ended, self.is_over = status, turn, lands_ms <= now_ms
        if status == 200:
            self.done_ms = now_ms


@dataclass
class Edits:
    """All edits of a run."""

    by_post: dict[str, list[Edit]] = field(default_factory=lambda: defaultdict(list))
    _messages: dict[str, Edit] = field(default_factory=dict)  # by the id of the message

    def add(self, edit: Edit) -> Edit:
        self.by_post[edit.ref_id].append(edit)
        return edit

    def of(self, ref_id: str, user: str) -> list[Edit]:
        """The edits of a user that may have taken effect."""
        return [
            each for each in self.by_post.get(ref_id, ()) if each.user == user and each.is_possible
        ]

    def sent(self, queue: str, message: Message) -> None:
        """A message is in a queue."""
        if queue != names.PUBLISH.name or f'"{contract.POST_UPDATED}"' not in message.body:
            return
        content = json.loads(message.body)
        attribute = message.attributes.get(contract.FIRST_SENT_AT, {}).get("StringValue", "")
        stamp = first_sent_at(attribute, sent_at=int(message.sent_at * 1000))
        edit = Edit(content["publisher_id"], content["ref_id"], content["body"], stamp)
        self._messages[message.id] = self.add(edit)

    def ended(self, message: Message, how: str, now_ms: float) -> None:
        """A message or a copy of it has left its queue for good."""
        edit = self._messages.get(message.id)
        if edit is None:
            return
        if how != DELETED:
            edit.is_lost = True
        elif not edit.is_lost:  # otherwise an operator has deleted the letter
            edit.done_ms = min(edit.done_ms, now_ms)
