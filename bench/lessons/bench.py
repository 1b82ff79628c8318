"""Lessons of the founding articles, on the model: throttling indexes, shards that lose edges."""

from __future__ import annotations

from bench.figures import Figure, Lines, Result, Row
from bench.lessons.indexes import BY_STATE, SPARSE, Writing, Written
from bench.lessons.suffixes import FOLLOWS, Drawn, Levels, Modulo, Sharding, Shown, show
from bench.progress import with_progress

# Fan-outs a second; each is three writes of the ledger.
RATES, SHORT_RATES = (250, 500, 750, 1_000), (250, 1_000)
SECONDS, SHORT_SECONDS = 6, 4
INDEXES = {"sparse": SPARSE, "by state": BY_STATE}
OURS, MODULO, DRAWN = "levels (ours)", "hash % N", "random suffix"


def run(*, short: bool) -> Result:
    """Write the ledger behind both indexes, and keep followers in three kinds of shards."""
    rates = SHORT_RATES if short else RATES
    seconds = SHORT_SECONDS if short else SECONDS
    cases = [(name, rate) for name in INDEXES for rate in rates]
    written = {
        (name, rate): Writing(INDEXES[name], rate).run(seconds)
        for name, rate in with_progress("lessons, an index", cases)
    }
    ways: dict[str, Sharding] = {OURS: Levels(), MODULO: Modulo(), DRAWN: Drawn()}
    shown = {name: show(ways[name]) for name in with_progress("lessons, suffixes", ways)}
    ours = shown[OURS]
    throttled = max(written["sparse", rate].throttled_share for rate in rates)
    writes = f"the ledger's writes at up to {max(rates):,} fan-outs/s"
    doubled = f"{FOLLOWS:,} whose shards doubled twice, read at the current level"
    unfollowed = "the same after all have unfollowed"
    return Result(
        figures=[
            Figure("lessons.sparse_index_throttled", 100 * throttled, 0, "%", "lower", writes),
            Figure("lessons.missed", ours.missed[0], 0, "followers", "lower", doubled),
            Figure("lessons.left_behind", ours.left, 0, "edges", "lower", unfollowed),
        ],
        rows=[
            *(_index(name, rate, found) for (name, rate), found in written.items()),
            *(row for name, found in shown.items() for row in _suffixes(name, found)),
        ],
        setting={
            "tables": "warm for 40,000 write units/s, table and index, on the capacity model",
            "fan-outs": f"of one segment, {seconds} s; throttled writes are not retried",
            "shards": f"1, 2, 4 over {FOLLOWS:,} follows; one in 100 is sent twice",
        },
        chart=Lines(
            title="Writes of the ledger that are throttled, by the index beside it",
            x="fan-outs/s",
            y="% of all writes",
            lines={
                name: [(rate, 100 * written[name, rate].throttled_share) for rate in rates]
                for name in INDEXES
            },
        ),
    )


def _index(name: str, rate: int, found: Written) -> Row:
    used = f"of {found.writes:,} writes; {found.table_share:.1%} of the table itself is used"
    reasons = ", ".join(found.reasons)
    note = f"{used}; {reasons}" if reasons else used
    return Row(
        f"index {name}, {rate:,} fan-outs/s", 100 * found.throttled_share, "% throttled", note
    )


def _suffixes(name: str, found: Shown) -> list[Row]:
    now, one, two = found.missed
    return [
        Row(
            f"{name}: a stale reader misses",
            one,
            "followers",
            f"whose number of shards is one doubling old; {now} if current, {two:,} if two old",
        ),
        Row(f"{name}: stored twice", found.twice, "followers", "after a follow is sent again"),
        Row(f"{name}: left behind", found.left, "edges", "after all have unfollowed"),
    ]
