"""Fanfold's writing alone: policy, bodies and calls of DELIVER, without reading followers."""

from __future__ import annotations

import math
from collections.abc import Callable

from bench import stub_data
from fanfold import clock
from fanfold.fanout.pacing import Pace
from fanfold.fanout.policy import Delivery, Done
from fanfold.fanout.transport import Transport, run
from fanfold.follows import ring


def writer(transport: Transport, followers: int) -> Callable[[], None]:
    """Write the entry of the publisher with this many followers."""
    entry = stub_data.entry(followers)
    edges = stub_data.edges(followers)
    pace = Pace(stub_data.UNLIMITED)

    def write() -> None:
        delivery = Delivery(
            start=ring.START,
            hi=ring.END,
            stop_at=math.inf,
            chance=clock.chance,
            pace=pace,
            edges=edges,
        )
        end = run(delivery, transport, entry)
        if end != Done(followers):
            raise RuntimeError(f"Not all was written: {end}.")

    return write
