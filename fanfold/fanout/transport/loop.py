"""Between the policy of a delivery and the tables: the loop, and the interface of a transport.

Two transports make calls: boto3_transport and curl_transport. Neither decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import NamedTuple, Protocol, TypeAlias

from fanfold import clock
from fanfold.aws.retries import is_throttle, is_transient
from fanfold.errors import TryLater
from fanfold.fanout.pacing import MAX_IN_FLIGHT
from fanfold.fanout.worker_steps import Delivery, Done, Failed, HandBack, Send, Wait
from fanfold.follows.ring_reader import MAX_READS, EdgePage, Read
from fanfold.timeline.entries import Entry

# One per batch in flight, and one per page that is read ahead.
CONNECTIONS = MAX_IN_FLIGHT + MAX_READS
# While all deliveries of a loop wait for their pace, it checks this often for a new one.
JOIN_SECONDS = 0.01

End: TypeAlias = Done | HandBack | Failed


@dataclass(eq=False)
class Job:
    """A delivery under way; a thread waits for its end."""

    delivery: Delivery
    entry: Entry
    end: End | None = None
    has_ended: Event = field(default_factory=Event)

    def finish(self, end: End) -> None:
        self.end = end
        self.has_ended.set()


class Call(NamedTuple):
    """A call of a delivery: it reads a page of followers, or writes the entry into timelines."""

    job: Job
    action: Read | Send


class Finished(NamedTuple):
    """A call that has ended: its page, its followers without an entry, or its error."""

    call: Call
    result: EdgePage | Collection[str] | Exception


class Calls(Protocol):
    """The calls of all deliveries of a loop, many at once."""

    def start(self, call: Call) -> None:
        """Start reading a page, or writing a batch of entries."""

    def finished(self, seconds: float | None) -> Iterable[Finished]:
        """Wait until a call ends, at most `seconds`, and return those that have ended."""


class Transport(Protocol):
    """Makes the calls that the policy asks for."""

    def calls(self) -> AbstractContextManager[Calls]:
        """The calls of a loop; on exit, calls in flight are abandoned."""


class Loop:
    """Carries out deliveries, action by action, until the policy of each ends.

    Deliveries of several threads share the connections of one transport: the first thread makes the
    calls of all, in turns, until no delivery is left.
    """

    def __init__(self, transport: Transport, *, join_seconds: float = math.inf) -> None:
        self.transport = transport
        self._join_seconds = join_seconds
        self._jobs: list[Job] = []  # under way; only the leading thread uses it
        self._lock = Lock()  # of what follows
        self._new: list[Job] = []
        self._is_led = False

    def run(self, delivery: Delivery, entry: Entry) -> End:
        """Deliver `entry`; returns how that ended."""
        job = Job(delivery, entry)
        with self._lock:
            self._new.append(job)
            leads, self._is_led = not self._is_led, True
        if leads:
            self._lead()
        job.has_ended.wait()
        assert job.end is not None
        return job.end

    def _lead(self) -> None:
        try:
            while self._goes_on():
                with self.transport.calls() as calls:
                    self._carry_out(calls)
        except BaseException:
            self._give_up()
            raise

    def _goes_on(self) -> bool:
        """Whether a delivery has joined; if none has, the next one's thread leads."""
        self._join()
        with self._lock:
            self._is_led = bool(self._jobs or self._new)
            return self._is_led

    def _join(self) -> None:
        with self._lock:
            self._jobs += self._new
            self._new.clear()

    def _carry_out(self, calls: Calls) -> None:
        in_flight = 0
        while self._jobs:
            started, until = self._start(calls, CONNECTIONS - in_flight)
            in_flight += started
            self._jobs = [job for job in self._jobs if job.end is None]
            if self._jobs:
                seconds = min(until - clock.monotonic(), self._join_seconds)
                wait = None if seconds == math.inf else max(0.0, seconds)
                for finished in calls.finished(wait):
                    in_flight -= 1
                    _report(finished)
            self._join()

    def _start(self, calls: Calls, room: int) -> tuple[int, float]:
        """Start what can be started, in turns; returns how many calls, and until when to wait."""
        asked, started, until = self._jobs, 0, math.inf
        while asked:
            now, again = clock.monotonic(), []
            for job in asked:
                if started == room:
                    return started, math.inf  # until a call ends
                match job.delivery.next(now):
                    case Read() | Send() as action:
                        calls.start(Call(job, action))
                        started += 1
                        again.append(job)
                    case Wait(at):
                        until = min(until, at)
                    case end:
                        job.finish(end)
            asked = again
        return started, until

    def _give_up(self) -> None:
        """End all deliveries, because the leading thread was stopped and others wait for it."""
        with self._lock:
            left = self._jobs + self._new
            self._jobs, self._new, self._is_led = [], [], False
        for job in left:
            job.finish(Failed(TryLater("The delivery was stopped in the middle; it comes again.")))


def run(delivery: Delivery, transport: Transport, entry: Entry) -> End:
    """Deliver `entry` alone, action by action, until the policy ends."""
    return Loop(transport).run(delivery, entry)


def _report(finished: Finished) -> None:
    """Tell the delivery what became of its call; an error in that ends it, and no other one."""
    job = finished.call.job
    if job.end is not None:
        return
    try:
        _tell(job.delivery, finished.call.action, finished.result)
    except Exception as error:  # noqa: BLE001 - for the thread that waits for the end
        job.finish(Failed(error))


def _tell(
    delivery: Delivery, action: Read | Send, result: EdgePage | Collection[str] | Exception
) -> None:
    now = clock.monotonic()
    if isinstance(action, Send):
        if isinstance(result, Exception):
            retryable, throttled = is_transient(result), is_throttle(result)
            delivery.batch_failed(
                action.batch, result, retryable=retryable, throttled=throttled, now=now
            )
        else:
            assert not isinstance(result, EdgePage)
            delivery.batch_answered(action.batch, result, now=now)
    elif isinstance(result, EdgePage):
        delivery.page_read(action, result, now=now)
    else:
        assert isinstance(result, Exception)
        delivery.read_failed(action, result, retryable=is_transient(result), now=now)
