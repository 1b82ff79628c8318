"""The second read: a difference counts only if it is still there a moment later.

Follows go on during an examination, so an edge may be on its way at the first read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fanfold import clock
from fanfold.doctor.findings import Pair, Snapshot
from fanfold.doctor.scan import Records
from fanfold.names import PLAN

# RELATE finishes a door's change once the door has ended and its writes have landed. PLAN, which
# takes follows from the publish queue, takes longest; 20 s are for RELATE itself.
MOMENT_SECONDS = PLAN.settled_seconds + 20.0


@dataclass(frozen=True)
class Recheck:
    """Differences that await their second read, in the order of their first."""

    records: Records
    _first: dict[Pair, tuple[float, Snapshot]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._first)

    def add(self, snapshots: Iterable[Snapshot]) -> None:
        for snapshot in snapshots:
            at, first = self._first.get(snapshot.pair, (clock.monotonic(), snapshot))
            both = replace(first, places=first.places | snapshot.places)
            self._first[snapshot.pair] = at, both

    def due(self, *, wait: bool) -> tuple[int, list[Snapshot]]:
        """Read differences again after a moment: how many were read, and those that still differ.

        With `wait`, sleeps until the oldest one is due.
        """
        if wait:
            oldest = next(at for at, _ in self._first.values())
            clock.sleep(max(0.0, oldest + MOMENT_SECONDS - clock.monotonic()))
        now = clock.monotonic()
        due = [pair for pair, (at, _) in self._first.items() if at + MOMENT_SECONDS <= now]
        first = [self._first.pop(pair)[1] for pair in due]
        return len(due), list(filter(None, self.records.threads.map(self._confirm, first)))

    def _confirm(self, first: Snapshot) -> Snapshot | None:
        second = self.records.snapshot(first.pair, first.places)
        if second is None or second.difference is None:
            return None
        # The writer of a changed row reconciles it, or RELATE does. But neither touches an edge of
        # a newer version than the row's, and no edge on its way is one.
        is_same_row = second.row.version == first.row.version
        return second if is_same_row or second.has_newer_edge else None
