"""Edits as those who send them know them: what they say, when they count, and how they end."""

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

# Any other refusal may be that of a repeat, whose first call had its effect and lost its answer.
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
    done_ms: float = math.inf  # from when on readers see it, or a later one
    ended: float = math.inf  # of a request: in turns of the scheduler
    is_over: bool = False  # of a request: none of its writes may land any more
    is_lost: bool = False  # of a message: a dead letter; it may have had its effect

    @property
    def is_possible(self) -> bool:
        """Whether it may have had its effect.

        A request that was answered 404 may still edit a post that is accepted in the same seconds,
        where its own write lands late (docs/api.md).
        """
        return not (self.is_over and self.status in REFUSED)

    def answered(self, status: int, *, turn: int, now_ms: float, lands_ms: float) -> None:
        """Note the answer of a request whose last write has landed by then."""
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
        """The edits of a user that may have had their effect."""
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
        """A message, or a copy of it, was taken out of its queue for good."""
        edit = self._messages.get(message.id)
        if edit is None:
            return
        if how != DELETED:
            edit.is_lost = True
        elif not edit.is_lost:  # else an operator has deleted the letter
            edit.done_ms = min(edit.done_ms, now_ms)
