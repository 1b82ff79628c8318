"""Writes the entries of one post that an audit has missed, as its fan-out writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fanfold import clock
from fanfold.audit.reads import Pair
from fanfold.channels.head_table import HeadTable
from fanfold.channels.put import put
from fanfold.errors import TryLater
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.pacing import Pace
from fanfold.fanout.row import CHANNEL
from fanfold.fanout.transport.loop import Transport, run
from fanfold.fanout.worker_steps import Delivery, Done, Failed, HandBack
from fanfold.follows import ring
from fanfold.timeline.entries import Entries, Entry

# Entries a second: far below a worker's, so that a repair takes nothing from deliveries.
RATE = 400


@dataclass(frozen=True)
class Repair:
    """Idempotent: an entry overwrites itself. The ledger counts each as `repaired`."""

    ledger: Ledger
    entries: Entries
    heads: HeadTable
    transport: Transport  # whose clients do not retry

    def write(self, missing: Sequence[Pair]) -> int:
        """Write the missing entries of one post; returns how many. Raises `TryLater`."""
        fanout = missing[0].fanout
        entry = Entry(fanout.sort_key, fanout.publisher_id, fanout.expires_at)
        if fanout.by == CHANNEL:
            put(self.entries, entry)
            if self.heads.raise_seq(fanout.publisher_id, fanout.sort_key) is None:
                raise TryLater(f"'{fanout.publisher_id}' has no channel any more.")
            written = 1
        else:
            written = self._push(entry, sorted({ring.edge(pair.user_id) for pair in missing}))
        self.ledger.note_repair(fanout, written=written)
        return len(missing)

    def _push(self, entry: Entry, edges: list[str]) -> int:
        delivery = Delivery(
            start=ring.START,
            hi=ring.END,
            edges=edges,
            max_stragglers=0,
            pace=Pace(RATE),
            stop_at=math.inf,
            chance=clock.chance,
        )
        match run(delivery, self.transport, entry):
            case Done(written):
                return written
            case Failed(error):
                raise error
            case HandBack():
                raise TryLater("The timelines table takes no more entries; run it again.")
