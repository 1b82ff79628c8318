"""Between DELIVER's policy and the tables: the loop, and the interface of a transport.

Two transports make calls: transport_boto3 and transport_curl. Neither decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from fanfold import clock
from fanfold.aws.retries import is_throttle, is_transient
from fanfold.fanout.pacing import MAX_IN_FLIGHT
from fanfold.fanout.policy import Delivery, Done, Failed, HandBack, Send, Wait
from fanfold.follows.ring_reader import MAX_READS, Page, Read
from fanfold.timeline.entries import Entry

# One per batch in flight, and one per page that is read ahead.
CONNECTIONS = MAX_IN_FLIGHT + MAX_READS


class Finished(NamedTuple):
    """A call that has ended: its page, its followers without an entry, or its error."""

    action: Read | Send
    result: Page | Collection[str] | Exception


class Calls(Protocol):
    """The calls of one delivery, many at once."""

    def start(self, action: Read | Send) -> None:
        """Start reading a page of followers, or writing the entry into timelines."""

    def finished(self, seconds: float | None) -> Iterable[Finished]:
        """Wait until a call ends, at most `seconds`, and return those that have ended."""


class Transport(Protocol):
    """Makes the calls that the policy asks for."""

    def calls(self, entry: Entry) -> AbstractContextManager[Calls]:
        """The calls that deliver `entry`; on exit, calls in flight are abandoned."""


def run(delivery: Delivery, transport: Transport, entry: Entry) -> Done | HandBack | Failed:
    """Deliver `entry`, action by action, until the policy ends."""
    with transport.calls(entry) as calls:
        while True:
            now = clock.monotonic()
            match delivery.next(now):
                case Read() | Send() as action:
                    calls.start(action)
                case Wait(until):
                    seconds = None if until == math.inf else max(0.0, until - now)
                    for call in calls.finished(seconds):
                        _report(delivery, call)
                case end:
                    return end


def _report(delivery: Delivery, call: Finished) -> None:
    action, result, now = call.action, call.result, clock.monotonic()
    if isinstance(action, Send):
        if isinstance(result, Exception):
            retryable, throttled = is_transient(result), is_throttle(result)
            delivery.batch_failed(
                action.batch, result, retryable=retryable, throttled=throttled, now=now
            )
        else:
            assert not isinstance(result, Page)
            delivery.batch_answered(action.batch, result, now=now)
    elif isinstance(result, Page):
        delivery.page_read(action, result, now=now)
    else:
        assert isinstance(result, Exception)
        delivery.read_failed(action, result, retryable=is_transient(result), now=now)
