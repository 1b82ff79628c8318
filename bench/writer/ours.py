"""Fanfold's writing alone: policy, bodies and calls of DELIVER, without reading followers."""

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
    """Calls of a transport, with the page of followers answered at once."""

    calls: Calls
    page: Page
    read: list[Finished] = field(default_factory=list)

    def start(self, action: Read | Send) -> None:
        if isinstance(action, Read):
            self.read.append(Finished(action, self.page))
        else:
            self.calls.start(action)

    def finished(self, seconds: float | None) -> Iterable[Finished]:
        if self.read:
            return [self.read.pop()]
        return self.calls.finished(seconds)


@dataclass(frozen=True)
class WithoutReading:
    """A transport with the page of followers at hand."""

    transport: Transport
    page: Page

    @contextmanager
    def calls(self, entry: Entry) -> Iterator[PageAtHand]:
        with self.transport.calls(entry) as calls:
            yield PageAtHand(calls, self.page)


def writer(transport: Transport, followers: int) -> Callable[[], None]:
    """Write the entry of the publisher with this many followers."""
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
