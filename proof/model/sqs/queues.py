"""One standard queue: messages that wait or are in flight, and its dead-letter queue.

Fairness is simplified from "fair queues" of the Developer Guide: a message group is noisy while it
has at least thirty messages in flight and more than a tenth of all; quiet groups go first.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from typing import Any

from proof.model.clock import Clock
from proof.model.errors import Refused
from proof.model.sqs.messages import Message, arn_of

NOISY_SHARE = 0.10
NOISY_IN_FLIGHT = 30
MAX_IN_FLIGHT = 120_000
# How a message ends; see `Hooks`.
DELETED, MOVED, EXPIRED = "deleted", "moved", "expired"
# The age of the oldest message does not include messages received more often.
AGED_RECEIVES = 3


@dataclass
class Hooks:
    """What a simulation decides; all chance comes from `random`.

    `choose(random, queue, waiting)`: the number of the waiting message to receive next; without
    it, any of the `window` oldest.
    `is_duplicated(random, queue, message)`: whether a copy of a received message stays, to be
    received again even if the message is deleted.
    `copy_seconds()`: how long after the message such a copy may be received; 0 without it.
    `fail(queue, entries)`: numbers of the entries of a batch that are not sent.
    `late_seconds(queue, message)`: how long after its delay a message may be received first.
    `comes_short(random, queue, count)`: how many messages, at most `count`, one receive brings.
    `sent(queue, message)`: a message was sent.
    `ended(queue, message, how)`: a message or a copy left its queue for good: DELETED, MOVED to the
    dead-letter queue, or EXPIRED with its retention.
    """

    random: Random = field(default_factory=lambda: Random(0))
    window: int = 20
    choose: Callable[[Random, str, Sequence[Message]], int] | None = None
    is_duplicated: Callable[[Random, str, Message], bool] | None = None
    copy_seconds: Callable[[], float] | None = None
    late_seconds: Callable[[str, Message], float] = lambda _queue, _message: 0.0
    fail: Callable[[str, Sequence[dict[str, Any]]], Collection[int]] | None = None
    comes_short: Callable[[Random, str, int], int] | None = None
    sent: Callable[[str, Message], None] = lambda _queue, _message: None
    ended: Callable[[str, Message, str], None] = lambda _queue, _message, _how: None

    def next(self, queue: str, waiting: Sequence[Message]) -> int:
        if self.choose is not None:
            return self.choose(self.random, queue, waiting)
        return self.random.randrange(len(waiting))

    def fail_entries(self, queue: str, entries: Sequence[dict[str, Any]]) -> Collection[int]:
        return self.fail(queue, entries) if self.fail is not None else ()


@dataclass
class Redrive:
    """The dead-letter queue of messages received `max_receives` times without being deleted."""

    dlq: Queue
    max_receives: int


@dataclass(eq=False)
class Queue:
    """Each of its messages waits, or is hidden: delayed, or in flight."""

    name: str
    clock: Clock
    hooks: Hooks
    visibility_seconds: float = 30
    retention_seconds: float = 4 * 24 * 60 * 60
    delay_seconds: float = 0
    redrive: Redrive | None = None
    tags: dict[str, str] = field(default_factory=dict)
    # Counts changes of the waiting messages, so that a poller knows when to look again.
    changes: int = 0
    _count: int = 0
    _kept: dict[Message, None] = field(default_factory=dict)  # in the order of arrival
    _waiting: dict[Message, None] = field(default_factory=dict)
    _in_flight: dict[Message, None] = field(default_factory=dict)
    _by_handle: dict[str, Message] = field(default_factory=dict)
    _hidden: list[tuple[float, int, Message]] = field(default_factory=list)
    _expiring: list[tuple[float, int, Message]] = field(default_factory=list)
    _noise: Counter[str | None] = field(default_factory=Counter)

    def send(self, message: Message) -> Message:
        message.id = f"{self.name}-{self._next():08d}"
        message.sent_at = self.clock.now
        delay = self.delay_seconds if message.delay_seconds is None else message.delay_seconds
        if late := self.hooks.late_seconds(self.name, message):
            message.late_since = message.sent_at + delay
        self._accept(message, delay + late)
        self.hooks.sent(self.name, message)
        return message

    def receive(
        self, count: int, *, visibility_seconds: float | None = None
    ) -> list[tuple[Message, str]]:
        """At most `count` messages, each with the handle of this receive."""
        self._catch_up()
        if self.hooks.comes_short is not None:
            count = self.hooks.comes_short(self.hooks.random, self.name, count)
        visibility = self.visibility_seconds if visibility_seconds is None else visibility_seconds
        found: list[tuple[Message, str]] = []
        received: set[str] = set()
        while len(found) < count and len(self._in_flight) < MAX_IN_FLIGHT:
            message = self._pick(received)
            if message is None:
                break
            if self.redrive and message.receives >= self.redrive.max_receives:
                self._bury(message, self.redrive.dlq)
                continue
            received.add(message.id)
            found.append((message, self._hand_out(message, visibility)))
        return found

    def delete(self, handle: str) -> None:
        """Delete the message of a handle; the handle of an earlier receive deletes nothing."""
        self._check_handle(handle)
        message = self._by_handle.get(handle)
        if message is not None:
            self._forget(message)
            self.hooks.ended(self.name, message, DELETED)

    def change_visibility(self, handle: str, seconds: float) -> None:
        """Hide the message of a handle for `seconds` from now on."""
        self._check_handle(handle)
        self._catch_up()
        message = self._by_handle.get(handle)
        if message is None or message not in self._in_flight:
            raise Refused(
                "AWS.SimpleQueueService.MessageNotInflight",
                "Message does not exist or is not available for visibility timeout change.",
            )
        self._hide(message, seconds)

    def purge(self) -> None:
        for message in list(self._kept):
            self._forget(message)
            self.hooks.ended(self.name, message, DELETED)

    def attributes(self) -> dict[str, str]:
        """Counts and settings, as text."""
        waiting, in_flight, delayed = self.counts()
        return {
            "ApproximateNumberOfMessages": str(waiting),
            "ApproximateNumberOfMessagesNotVisible": str(in_flight),
            "ApproximateNumberOfMessagesDelayed": str(delayed),
            "VisibilityTimeout": str(int(self.visibility_seconds)),
            "MessageRetentionPeriod": str(int(self.retention_seconds)),
            "DelaySeconds": str(int(self.delay_seconds)),
            "QueueArn": arn_of(self.name),
        }

    def counts(self) -> tuple[int, int, int]:
        """How many messages wait, are in flight and are delayed."""
        self._catch_up()
        waiting, in_flight = len(self._waiting), len(self._in_flight)
        return waiting, in_flight, len(self._kept) - waiting - in_flight

    def messages(self) -> list[Message]:
        """All messages, waiting or hidden; no service call shows them."""
        self._catch_up()
        return list(self._kept)

    def received(self, handles: Collection[str]) -> list[Message]:
        """The messages of these handles; no service call shows them."""
        return [self._by_handle[handle] for handle in handles if handle in self._by_handle]

    def waiting(self) -> int:
        self._catch_up()
        return len(self._waiting)

    @property
    def is_empty(self) -> bool:
        """Whether it has no message, neither waiting nor hidden."""
        return not self._kept

    def age_of_oldest(self) -> float:
        """CloudWatch's ApproximateAgeOfOldestMessage: the seconds since the oldest was sent.

        Like SQS, it leaves out messages that were received too often; and delayed ones, about which
        the guide says nothing. Messages that SQS delivers late are not delayed.
        """
        self._catch_up()
        counted = (
            message.sent_at
            for message in self._kept
            if message.receives <= AGED_RECEIVES
            and (message.receives or not message.hidden or message.late_since <= self.clock.now)
        )
        oldest = next(counted, None)
        return self.clock.now - oldest if oldest is not None else 0.0

    def next_change(self) -> float | None:
        """When the next hidden message becomes visible, in seconds since the epoch."""
        hidden = self._hidden
        while hidden and hidden[0][2].hidden != hidden[0][1]:  # deleted, or hidden again
            heapq.heappop(hidden)
        return hidden[0][0] if hidden else None

    def _accept(self, message: Message, delay: float) -> None:
        self._kept[message] = None
        until = message.sent_at + self.retention_seconds
        heapq.heappush(self._expiring, (until, self._next(), message))
        if delay > 0:
            self._hide(message, delay)
        else:
            self.changes += 1
            self._waiting[message] = None

    def _hide(self, message: Message, seconds: float) -> None:
        self.changes += 1
        message.hidden = self._next()
        heapq.heappush(self._hidden, (self.clock.now + seconds, message.hidden, message))

    def _hand_out(self, message: Message, visibility: float) -> str:
        """Put a waiting message in flight; return the handle of this receive."""
        message.receives += 1
        if message.first_received_at is None:
            message.first_received_at = self.clock.now
        duplicated = self.hooks.is_duplicated
        if duplicated is not None and duplicated(self.hooks.random, self.name, message):
            seconds = self.hooks.copy_seconds() if self.hooks.copy_seconds is not None else 0.0
            self._accept(replace(message, handle=""), seconds)
        self._by_handle.pop(message.handle, None)
        message.handle = f"{self.name}#{self._next()}"
        self._by_handle[message.handle] = message
        del self._waiting[message]
        self._in_flight[message] = None
        self._noise[message.group] += 1
        self._hide(message, visibility)
        return message.handle

    def _pick(self, received: Collection[str]) -> Message | None:
        """A message that is not in `received`, from a quiet group if there is one."""
        noisy = self._noisy_groups()
        candidates = list(islice(self._candidates(noisy, received), self.hooks.window))
        if not candidates and noisy:
            candidates = list(islice(self._candidates((), received), self.hooks.window))
        if not candidates:
            return None
        return candidates[self.hooks.next(self.name, candidates)]

    def _candidates(
        self, noisy: Collection[str | None], received: Collection[str]
    ) -> Iterator[Message]:
        for message in self._waiting:
            if message.group not in noisy and message.id not in received:
                yield message

    def _noisy_groups(self) -> set[str | None]:
        """Groups that must wait. A message without a group is a separate group."""
        most = max(NOISY_IN_FLIGHT - 1, NOISY_SHARE * len(self._in_flight))
        if len(self._in_flight) <= most:
            return set()
        return {group for group, n in self._noise.items() if n > most and group is not None}

    def _catch_up(self) -> None:
        """Show messages that are no longer hidden, and drop those whose retention is over."""
        now = self.clock.now
        while self._hidden and self._hidden[0][0] <= now:
            _, number, message = heapq.heappop(self._hidden)
            if message in self._kept and message.hidden == number:
                self._land(message)
                self._waiting[message] = None
        while self._expiring and self._expiring[0][0] <= now:
            message = heapq.heappop(self._expiring)[2]
            if message in self._kept:
                self._forget(message)
                self.hooks.ended(self.name, message, EXPIRED)

    def _land(self, message: Message) -> None:
        message.hidden = 0
        if message in self._in_flight:
            del self._in_flight[message]
            self._noise[message.group] -= 1
            if not self._noise[message.group]:
                del self._noise[message.group]

    def _forget(self, message: Message) -> None:
        self.changes += 1
        self._land(message)
        self._kept.pop(message, None)
        self._waiting.pop(message, None)
        self._by_handle.pop(message.handle, None)

    def _bury(self, message: Message, dlq: Queue) -> None:
        """Move a message to the dead-letter queue; its retention counts from when it was sent."""
        self._forget(message)
        self.hooks.ended(self.name, message, MOVED)
        dlq._accept(
            replace(
                message, receives=0, first_received_at=None, handle="", dead_letter_source=self.name
            ),
            0,
        )

    def _check_handle(self, handle: str) -> None:
        if not handle.startswith(f"{self.name}#"):
            raise Refused(
                "ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is invalid.'
            )

    def _next(self) -> int:
        self._count += 1
        return self._count
