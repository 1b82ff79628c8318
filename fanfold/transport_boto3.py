"""The boto3 transport: a thread for every call in flight. Trusted everywhere, dear in CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from fanfold import clock, ring
from fanfold.aws import is_passing
from fanfold.delivery import (
    MAX_IN_FLIGHT,
    Delivery,
    Done,
    Failed,
    HandBack,
    Read,
    Send,
    Wait,
)
from fanfold.followers import Followers
from fanfold.timelines import Entry, Timelines

# Every batch in flight, and the page that is read ahead meanwhile.
CONNECTIONS = MAX_IN_FLIGHT + 1

Report = Callable[[float], None]


@dataclass(frozen=True)
class Boto3Transport:
    """Carries out deliveries through boto3 clients that do not retry by themselves."""

    followers: Followers
    timelines: Timelines
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="deliver")
    )

    def carry_out(self, delivery: Delivery, *, entry: Entry, hi: str) -> Done | HandBack | Failed:
        """Deliver `entry` to its publisher's followers below the ring position `hi`."""
        reports: SimpleQueue[Report] = SimpleQueue()

        def read(action: Read) -> Report:
            page = self.followers.page(entry.publisher_id, after=action.after, hi=hi)
            return lambda _now: delivery.page_read(page)

        def send(action: Send) -> Report:
            users = [ring.follower_of(edge) for edge in action.edges]
            left = self.timelines.push(entry, users)
            return lambda now: delivery.batch_answered(action.batch, left, now=now)

        def failed(action: Read | Send, error: Exception) -> Report:
            passing = is_passing(error)
            if isinstance(action, Read):
                return lambda now: delivery.read_failed(error, retryable=passing, now=now)
            return lambda now: delivery.batch_failed(
                action.batch, error, retryable=passing, now=now
            )

        def run(action: Read | Send) -> None:
            try:
                report = read(action) if isinstance(action, Read) else send(action)
            except Exception as error:  # noqa: BLE001 - reported, and raised by the use case
                report = failed(action, error)
            reports.put(report)

        while True:
            now = clock.monotonic()
            match delivery.next(now):
                case Read() | Send() as action:
                    self.threads.submit(run, action)
                case Wait(until):
                    _take_reports(reports, None if until == math.inf else max(0.0, until - now))
                case end:
                    return end


def _take_reports(reports: SimpleQueue[Report], seconds: float | None) -> None:
    """Wait for one report, at most `seconds`, and pass on all that have come by then."""
    try:
        reports.get(timeout=seconds)(clock.monotonic())
        while True:
            reports.get_nowait()(clock.monotonic())
    except Empty:
        return
