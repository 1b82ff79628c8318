"""Makes the ring of a fan-out from its row of the ledger. Pure."""

from __future__ import annotations

from fanfold import times
from fanfold.fanout.row import COMPLETE, Fanout
from fanfold.fanout.segment_size import segment_range
from fanfold.fanout.status import status_of
from fanfold.follows import ring
from fanfold_cli.console.views import CELLS, Ring


def view(row: Fanout, *, found: tuple[int, ...] = (), is_largest: bool = True) -> Ring:
    """The ring as far as the ledger knows: finished segments, and the positions of hand-backs."""
    status = status_of(row)
    return Ring(
        ref_id=row.fanout_id,
        publisher_id=row.publisher_id,
        state=row.state,
        followers=status.delivered if row.state == COMPLETE else status.followers_estimated,
        delivered=status.delivered,
        segments=row.segments,
        pending=tuple(sorted(row.pending)),
        accepted_at=times.to_ms(row.accepted_at) / 1000,
        changed_at=max(times.to_ms(row.accepted_at), row.changed_ms) / 1000,
        lag_seconds=status.lag_seconds,
        by=row.by,
        have=_by_ledger(row) if is_largest else (),
        found=found,
        is_largest=is_largest,
    )


def _by_ledger(row: Fanout) -> tuple[float, ...]:
    """The delivered share of each cell, by the ledger."""
    if row.state == COMPLETE:
        return (1.0,) * CELLS
    if not row.segments:
        return (0.0,) * CELLS
    step = ring.RING_SIZE // CELLS
    shares = []
    for cell in range(CELLS):
        begin, end = cell * step, (cell + 1) * step
        done = 0
        for segment in _segments_in(cell, row.segments):
            part = segment_range(segment, row.segments)
            lo = int(part.lo, 16)
            hi = ring.RING_SIZE if part.hi == ring.END else int(part.hi, 16)
            if segment not in row.pending:
                reached = hi
            elif segment in row.resume:
                reached = min(hi, _number(row.resume[segment].position))
            else:
                reached = lo
            done += max(0, min(reached, end) - max(lo, begin))
        shares.append(round(done / step, 3))
    return tuple(shares)


def _segments_in(cell: int, segments: int) -> range:
    if segments <= CELLS:
        place = cell * segments // CELLS
        return range(place, place + 1)
    each = segments // CELLS
    return range(cell * each, (cell + 1) * each)


def _number(position: str) -> int:
    """A position as a number; one after all edges ends in letters that are not digits."""
    digits = ring.position_of(position).rstrip(ring.END)
    return int(digits.ljust(ring.POSITION_DIGITS, "f"), 16) if digits else ring.RING_SIZE
