"""Fanfold's writing alone: policy, bodies and calls as in DELIVER, with the page at hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from bench import stub_data
from fanfold import clock
from fanfold.fanout.pacing import Pace
from fanfold.fanout.policy import Delivery, Done, Send
from fanfold.fanout.transport import Calls, Finished, Transport, run
from fanfold.follows import ring
from fanfold.follows.ring_reader import Page, Read
from fanfold.timeline.entries import Entry


@dataclass
class PageAtHand:
    """Calls of a transport, but for the one page of followers, which is not asked for."""

    calls: Calls
    page: Page
    read: list[Finished] = field(default_factory=list)

    def start(self, action: Read | Send) -> None:
        """Begin a call."""
        if isinstance(action, Read):
            self.read.append(Finished(action, self.page))
        else:
            self.calls.start(action)

    def finished(self, seconds: float | None) -> Iterable[Finished]:
        """The calls that have ended."""
        if self.read:
            return [self.read.pop()]
        return self.calls.finished(seconds)


@dataclass(frozen=True)
class WithoutReading:
    """A transport that has the page of followers at hand."""

    transport: Transport
    page: Page

    @contextmanager
    def calls(self, entry: Entry) -> Iterator[PageAtHand]:
        """To deliver `entry`."""
        with self.transport.calls(entry) as calls:
            yield PageAtHand(calls, self.page)


def writer(transport: Transport, followers: int) -> Callable[[], None]:
    """Write the entry of the publisher with so many followers."""
    entry = stub_data.entry(followers)
    page = WithoutReading(transport, Page(stub_data.edges(followers), more=False))
    pace = Pace(stub_data.UNLIMITED)

    def write() -> None:
        delivery = Delivery(
            start=ring.START, hi=ring.END, stop_at=math.inf, chance=clock.chance, pace=pace
        )
        end = run(delivery, page, entry)
        if end != Done(followers):
            raise RuntimeError(f"Not all was written: {end}.")

    return write
