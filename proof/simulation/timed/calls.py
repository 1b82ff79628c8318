"""Calls that take time: a client for the use cases, and the transport of DELIVER."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, TypeAlias

from fanfold.aws.retries import CALL, is_throttle
from fanfold.fanout.transport.loop import Call, Finished
from fanfold.fanout.worker_steps import Send
from fanfold.follows import ring
from fanfold.follows.ring_reader import EdgePage, Read
from fanfold.timeline.entries import Entry
from proof.simulation.stage import stores
from proof.simulation.world.retries import is_repeated
from proof.simulation.world.scheduler import Scheduler, Task

# A call to DynamoDB or SQS: log-normal, 5.5 ms on average, one in a hundred above 9.5 ms.
CALL_MEDIAN_SECONDS, CALL_SIGMA = 0.0053, 0.25
# A page takes longer by its size: 2,500 edges, 200 KB, 30 ms.
EDGE_SECONDS = 0.00001


# Called with an operation and its request, at the moment of its effect.
Applied: TypeAlias = Callable[[str, dict[str, Any]], None]


def call_seconds(random: Random) -> float:
    return random.lognormvariate(math.log(CALL_MEDIAN_SECONDS), CALL_SIGMA)


@dataclass
class CallCounts:
    """Counts of DELIVER's calls."""

    sent: int = 0  # entries, counted at every attempt
    throttled: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[Exception] = field(default_factory=list)

    @property
    def throttled_share(self) -> float:
        return self.throttled / max(1, self.sent)


@dataclass
class InARow:
    """The longest chain of calls, each of which began after another had ended.

    If nothing else calls at that time, one publish waits for this many.
    """

    begun: int = 0  # calls in flight included
    ended: int = 0

    def begin(self) -> int:
        """Begin a call; return its position in the chain."""
        self.begun = max(self.begun, self.ended + 1)
        return self.ended + 1

    def end(self, number: int) -> None:
        self.ended = max(self.ended, number)


@dataclass(frozen=True)
class TimedCalls:
    """A client whose calls take time, and are retried as the product's clients retry."""

    scheduler: Scheduler
    client: Any
    applied: Applied = lambda _operation, _request: None
    in_a_row: InARow = field(default_factory=InARow)

    @property
    def exceptions(self) -> Any:
        return self.client.exceptions

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        return partial(self._call, operation)

    def _call(self, operation: str, **request: Any) -> Any:
        for _ in range(CALL.attempts - 1):
            try:
                return self._try(operation, request)
            except Exception as error:
                if not is_repeated(error):
                    raise
        return self._try(operation, request)

    def _try(self, operation: str, request: dict[str, Any]) -> Any:
        half = call_seconds(self.scheduler.random) / 2
        number = self.in_a_row.begin()
        self.scheduler.sleep(half)
        try:
            answer = getattr(self.client, operation)(**request)
            if operation == "query":
                half += EDGE_SECONDS * len(answer["Items"])
            self.applied(operation, request)
            return answer
        finally:
            self.scheduler.sleep(half)
            self.in_a_row.end(number)


@dataclass(frozen=True)
class ModelTransport:
    """Calls to the model, many at a time."""

    scheduler: Scheduler
    client: Any
    counts: CallCounts
    in_a_row: InARow = field(default_factory=InARow)

    @contextmanager
    def calls(self) -> Iterator[ModelCalls]:
        """The calls of a loop; calls still in flight at the end take effect, too."""
        yield ModelCalls(self)


class ModelCalls:
    """The calls of deliveries: each has its effect half-way through its time."""

    def __init__(self, transport: ModelTransport) -> None:
        self.scheduler, self.counts = transport.scheduler, transport.counts
        self._in_a_row = transport.in_a_row
        self._followers = stores(transport.client).edges
        self._timelines = stores(transport.client).entries
        self._finished: list[Finished] = []
        self._waiting: Task | None = None

    def start(self, call: Call) -> None:
        half = call_seconds(self.scheduler.random) / 2
        self._after(half, partial(self._run, call, half, self._in_a_row.begin()))

    def finished(self, seconds: float | None) -> list[Finished]:
        """Return the calls that have ended; if none has, wait for one, at most `seconds`."""
        if not self._finished:
            self._waiting = self.scheduler.current
            self.scheduler.wait(seconds)
            self._waiting = None
        finished, self._finished = self._finished, []
        return finished

    def _run(self, call: Call, half: float, number: int) -> None:
        entry, action = call.job.entry, call.action
        if isinstance(action, Send):
            result: EdgePage | Collection[str] | Exception = self._push(entry, action)
        else:
            result = self._page(entry.publisher_id, action)
        if isinstance(result, EdgePage):
            half += EDGE_SECONDS * len(result.edges)
        self._after(half, partial(self._end, Finished(call, result), number))

    def _end(self, call: Finished, number: int) -> None:
        self._in_a_row.end(number)
        self._finished.append(call)
        if self._waiting:
            self.scheduler.wake(self._waiting)

    def _after(self, seconds: float, callback: Callable[[], None]) -> None:
        self.scheduler.at(self.scheduler.now + seconds, callback)

    def _page(self, publisher_id: str, action: Read) -> EdgePage | Exception:
        try:
            return self._followers.page(publisher_id, action)
        except Exception as error:  # noqa: BLE001 - the policy decides
            return error

    def _push(self, entry: Entry, action: Send) -> Collection[str] | Exception:
        self.counts.sent += len(action.edges)
        try:
            left = self._timelines.push(entry, [ring.follower_of(e) for e in action.edges])
        except Exception as error:  # noqa: BLE001 - the policy decides
            if is_throttle(error):
                self.counts.throttled += len(action.edges)
            return error
        self.counts.throttled += len(left)
        return left
