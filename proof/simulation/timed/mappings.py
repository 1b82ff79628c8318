"""Lambda's event source mappings: each invokes a function with messages of its queue."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from fanfold import names
from proof.simulation.timed.calls import call_seconds
from proof.simulation.timed.tasks import side_by_side

if TYPE_CHECKING:
    from proof.simulation.timed.model import Model

# From a visible message to the first line of the handler, in a warm environment.
INVOKE_SECONDS = (0.010, 0.020)
# Python, the imports and the first TLS connection of a new environment.
COLD_START_SECONDS = 0.4
# Lambda polls a queue that was idle with five batches at a time, and adds 300 a minute
# (services-sqs-scaling in the developer guide).
FIRST_POLLERS, POLLERS_PER_SECOND = 5, 5

E = TypeVar("E")


@dataclass(frozen=True)
class Arrived:
    """A message as a function receives it."""

    body: str
    group: str  # its publisher, for a message of a fan-out
    sent_at: int  # epoch ms
    redelivered: bool

    @classmethod
    def of(cls, message: dict[str, Any]) -> Arrived:
        attributes = message["Attributes"]
        return cls(
            body=message["Body"],
            group=attributes.get("MessageGroupId", ""),
            sent_at=int(attributes["SentTimestamp"]),
            redelivered=int(attributes["ApproximateReceiveCount"]) > 1,
        )

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.body)
        return content


@dataclass
class Environments(Generic[E]):
    """The environments of a function, with their state between invocations."""

    system: Model
    make: Callable[[], E]
    _free: list[E] = field(default_factory=list)

    @contextmanager
    def one(self) -> Iterator[E]:
        """A free environment, the last used first; creating one takes time if Lambda is cold."""
        if self._free:
            environment = self._free.pop()
        else:
            if self.system.cold:
                self.system.scheduler.sleep(COLD_START_SECONDS)
            environment = self.make()
        try:
            yield environment
        finally:
            self._free.append(environment)


# What a function does with a message, in one of its environments.
Handle: TypeAlias = Callable[[E, Arrived], None]


@dataclass
class EventSourceMapping(ABC):
    """Invokes a function with the messages of a queue, a bounded number of batches at a time."""

    system: Model
    queue: names.Queue
    url: str
    max_workers: int
    busy: int = 0
    invocations: int = 0
    _active_since: float | None = None  # when Lambda began to add pollers

    def poll(self) -> None:
        """Invoke the function with visible messages, while a worker is free."""
        while self.busy < self._pollers():
            received = self.system.untimed_sqs.receive_message(
                QueueUrl=self.url, MaxNumberOfMessages=self.queue.batch_size, AttributeNames=["All"]
            )
            if "Messages" not in received:
                return
            self.busy += 1
            self.system.scheduler.start(partial(self._work, received["Messages"]))
        if self.busy < self.max_workers:
            self.poll_in(1 / POLLERS_PER_SECOND)

    def poll_in(self, seconds: float) -> None:
        self.system.scheduler.at(self.system.scheduler.now + seconds, self.poll)

    def _pollers(self) -> int:
        if not self.system.cold:
            return self.max_workers
        now = self.system.scheduler.now
        self._active_since = now if self._active_since is None else self._active_since
        added = int((now - self._active_since) * POLLERS_PER_SECOND)
        return min(self.max_workers, FIRST_POLLERS + added)

    def _work(self, messages: list[dict[str, Any]]) -> None:
        system = self.system
        system.scheduler.sleep(system.random.uniform(*INVOKE_SECONDS))
        self.invocations += 1
        self.carry_out(messages)
        system.scheduler.sleep(call_seconds(system.random))  # Lambda deletes before it polls again
        self.busy -= 1
        self.poll()

    @abstractmethod
    def carry_out(self, messages: list[dict[str, Any]]) -> None:
        """Handle a batch: each of its messages is then `done`, or `comes_again`."""

    def done(self, message: dict[str, Any]) -> None:
        """Delete a message."""
        handle = message["ReceiptHandle"]
        self.system.untimed_sqs.delete_message(QueueUrl=self.url, ReceiptHandle=handle)

    def comes_again(self, error: Exception) -> None:
        """Poll for a message that failed, when it is visible again."""
        self.system.counts.failures.append(error)
        self.poll_in(self.queue.visibility_seconds)


@dataclass
class SideBySide(EventSourceMapping, Generic[E]):
    """The messages of a batch are handled at the same time, in one environment."""

    environments: Environments[E] = field(kw_only=True)
    handle: Handle[E] = field(kw_only=True)

    def carry_out(self, messages: list[dict[str, Any]]) -> None:
        with self.environments.one() as environment:
            side_by_side(
                self.system.scheduler,
                *(partial(self._handle, environment, message) for message in messages),
            )

    def _handle(self, environment: E, message: dict[str, Any]) -> None:
        try:
            self.handle(environment, Arrived.of(message))
        except Exception as error:  # noqa: BLE001 - as in Lambda, the message comes again
            self.comes_again(error)
        else:
            self.done(message)
