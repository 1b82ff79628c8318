"""The age of the oldest open fan-outs, for the alarms; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fanfold import times
from fanfold.fanout.row import Fanout
from fanfold.sweep.run_limits import Key

# An open fan-out of at most one segment is late at this age: it takes seconds, and SWEEP mends a
# lost one within 11 minutes.
SMALL_LATE_SECONDS = 900


@dataclass(frozen=True)
class Oldest:
    """The age of the oldest open fan-out of each size, in seconds; 0 if none is open."""

    small_seconds: float
    large_seconds: float


def oldest(keys: Iterable[Key], rows: Mapping[str, Fanout | None], *, now_ms: int) -> Oldest:
    """Measure the oldest ones. `rows` has what was read of the ledger, None for a missing row.

    A fan-out counts as large if its row says that it is in the bulk lane, or its key if the row was
    not read. So unplanned ones count as small.
    """
    small = large = times.to_text(now_ms)
    for key in keys:
        row = rows.get(key.fanout_id)
        if key.fanout_id in rows and (row is None or not row.is_open):
            continue  # the index lags behind
        since = row.accepted_at if row else key.accepted_at
        if row.is_bulk if row else key.is_large:
            large = min(large, since)
        else:
            small = min(small, since)
    return Oldest(*((now_ms - times.to_ms(since)) / 1000 for since in (small, large)))
