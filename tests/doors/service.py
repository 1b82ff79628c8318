"""The service for any input: requests and messages as they come, an account that is put back."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pytest

from fanfold.aws import threads
from fanfold.contract import Route
from proof.model.sqs.messages import Message
from tests import model, service
from tests.service import QUEUES_URL, Answer, Clock, Json, Stage, request_of, settings

__all__ = ["QUEUES_URL", "Answer", "Doors", "Json", "opened"]


class Faults(logging.Handler):
    """Collects what the functions log with a traceback, which is a fault of ours."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.found.append(repr(record.exc_info[1]))


@dataclass
class Doors(Stage):
    """A stage on the model; what `keep` takes is what `reset` goes back to."""

    account: model.Account
    faults: Faults = field(default_factory=Faults)

    def keep(self) -> None:
        """Take what there is now for the beginning of every case."""
        self._kept, self._began = self.account.copied(), (self.clock.ms, self.clock.seconds)
        self._rows = self.account.dump()

    def reset(self) -> None:
        """Begin anew, also with what containers remember."""
        self.account = self._kept.copied()
        model.use(self.account)
        self.clock.ms, self.clock.seconds = self._began
        self.faults.found.clear()
        self.handled.clear()
        self.forget()

    def restore(self) -> None:
        """The same as `reset`, sooner where no row has changed."""
        if self.account.dump() != self._rows:
            self.reset()
            return
        for queue in self.account.queues.by_url.values():
            queue.purge()
        self.faults.found.clear()
        self.handled.clear()

    def http(self, route: Route, user: Any, **request: Any) -> Answer:
        """Send a request of a user whose token is verified, with parts as `request_of` takes."""
        return self.ask(route, request_of(route, user, at_ms=self.clock.ms, **request))

    def send(self, name: str, body: str, **more: Any) -> None:
        """Send a message, perhaps with another `group`, `sender` and `attributes`."""
        self.account.queues.queue(self.url(name)).send(Message(body, **more))

    def deliver(self, name: str) -> list[str]:
        """Work on a batch of a queue; the bodies of messages that come again."""
        return [record["body"] for record in self.work(name)[1]]

    def settle(self, queues: Sequence[str] = ()) -> None:
        """Work on these queues, or on all, until they are empty."""
        self.pump(*queues)

    def letters(self, name: str) -> list[tuple[str, Json]]:
        """The dead letters of a queue: each body, with the attributes that it carries."""
        return [
            (each.body, {key: value["StringValue"] for key, value in each.attributes.items()})
            for each in self.account.messages(f"{name}Dlq")
        ]


@contextmanager
def opened(**changed: Any) -> Iterator[Doors]:
    """The functions with these settings changed, in modules of their own, in one thread."""
    now, chosen = Clock(), settings(**changed)
    with ExitStack() as ends:
        ends.enter_context(patch.object(threads, "pool", lambda _count: None))
        service.keep_time(ends.enter_context(pytest.MonkeyPatch.context()), now, now.monotonic)
        account = ends.enter_context(service.on_model(now))
        ends.enter_context(service.own_functions(chosen))
        doors = Doors(now, chosen, account=account)
        log = doors.door("api").logger._logger
        ends.enter_context(patch.object(log, "handlers", [doors.faults]))
        ends.enter_context(patch.object(log, "propagate", False))
        doors.keep()
        yield doors
