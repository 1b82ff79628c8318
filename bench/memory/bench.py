"""How much more memory DELIVER needs for a large segment than for a small one."""

from __future__ import annotations

from statistics import median

from bench import doors
from bench.endpoint import in_environment
from bench.figures import Figure, Lines, Result, Row
from bench.fresh import answer
from bench.progress import with_progress
from fanfold import names

SMALL, LARGE = 1_000, 50_000
BETWEEN = (5_000, 20_000)
RUNS, SHORT_RUNS = 3, 1
TARGET_MB = 10.0
AGAINST = f"peak RSS for {LARGE:,} followers less that for {SMALL:,}"


def run(*, short: bool) -> Result:
    runs = range(SHORT_RUNS if short else RUNS)
    sizes = (SMALL, *BETWEEN, LARGE)
    with in_environment() as stub:
        peaks: dict[str, dict[int, list[float]]] = {
            transport: {size: [] for size in sizes} for transport in names.TRANSPORTS
        }
        steps = [(transport, size) for _ in runs for transport in peaks for size in sizes]
        for transport, size in with_progress("memory", steps):
            peaks[transport][size].append(_peak_mb(size, transport))
    lines = {
        transport: [(float(size), median(found)) for size, found in by_size.items()]
        for transport, by_size in peaks.items()
    }
    growth = {name: points[-1][1] - points[0][1] for name, points in lines.items()}
    return Result(
        figures=[
            Figure("memory.growth_mb", growth[names.LIBCURL], TARGET_MB, "MB", "lower", AGAINST)
        ],
        rows=[
            *(
                Row(f"peak RSS, {size:,.0f} followers", mb, "MB", "of the whole process")
                for size, mb in lines[names.LIBCURL]
            ),
            Row("growth with transport=boto3", growth[names.BOTO3], "MB"),
        ],
        setting={
            "work": "one segment by the door of DELIVER in a fresh process, over TLS",
            "runs": f"medians of {len(runs)}",
            "pinned": stub.pinned,
        },
        chart=Lines(
            title="Peak memory of DELIVER", x="followers of the segment", y="MB", lines=lines
        ),
    )


def _peak_mb(followers: int, transport: str) -> float:
    found = answer("functions.deliver", doors.deliver(followers), TRANSPORT=transport)
    if found.answer != {"batchItemFailures": []}:
        raise RuntimeError(f"Not all was delivered: {found.answer}.")
    return found.peak_mb
