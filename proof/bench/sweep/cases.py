"""The worlds that SWEEP is measured in."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle, islice
from random import Random

from proof.bench.sweep.world import (
    BUDGET,
    DAY,
    HOUR,
    MINUTE,
    PLAN,
    SEGMENT_SECONDS,
    SweepPost,
    Traffic,
    WorldCase,
)

LARGE_SEGMENTS = 2_048  # in the queue; of those with a row, PLAN makes `MAX_SEGMENTS`
# What the bulk lane delivers in a second.
SEGMENTS_A_SECOND = BUDGET.bulk.max_concurrency / SEGMENT_SECONDS
FANOUTS_A_SECOND = SEGMENTS_A_SECOND / LARGE_SEGMENTS
# Between two posts of a backlog.
APART_SECONDS = 0.2
# Each of these has more than a tenth of the bulk lane, so SQS serves everybody else first.
CELEBRITIES = 8
# Enough that no queue ever looks empty.
STEADY_IN_FLIGHT = 11
AT_ONCE, SHORT_AT_ONCE = 10_000, 1_000
# How long a healthy world is looked at.
PATIENCE = 6 * HOUR
# How many fan-outs of a backlog have a row in the ledger, at even distances. The others only
# occupy the queue and its workers. SWEEP looks at no fan-out to judge another.
WITH_ROWS, SHORT_WITH_ROWS = 4, 1
OTHERS, SHORT_OTHERS = 150, 40
# Each has as many kinds of loss: of 15 others, three lose their plan order, three their only
# segment, and nine some or all of several segments.
SIZES = (2, 4, 8, 16, 32)


def others(
    count: int, *, until: float, after: float = 0.0, losing: bool = True
) -> tuple[SweepPost, ...]:
    """Posts of as many publishers, at random times, each of which loses orders."""
    random = Random(count)
    kinds = cycle((PLAN, 1, 0, 0, PLAN, 1, 0, 0, 0, PLAN, 1, 0, 0, 0, 0))
    posts = []
    for number, kind in enumerate(islice(kinds, count)):
        if kind == 0:
            segments = random.choice(SIZES)
            lost = _some(random, segments) if random.random() < 0.5 else [*range(segments)]
        else:
            segments, lost = 1, [PLAN if kind == PLAN else 0]
        posts.append(
            SweepPost(
                f"other-{number:04d}",
                f"publisher-{number:04d}",
                segments,
                random.uniform(after, until),
                frozenset(lost if losing else []),
            )
        )
    return tuple(posts)


def _some(random: Random, segments: int) -> list[int]:
    return random.sample(range(segments), random.randint(1, segments))


def backlog(
    fanouts: int, *, publishers: int, with_rows: int
) -> tuple[tuple[SweepPost, ...], tuple[Traffic, ...]]:
    """Large fan-outs, all sent in the first minutes: those with rows, and the others."""
    chosen = {int((n + 0.5) * fanouts / with_rows) for n in range(with_rows)}
    rows, traffic = [], []
    for number in range(fanouts):
        group, at = f"celebrity-{number % publishers:04d}", number * APART_SECONDS
        if number in chosen:
            rows.append(SweepPost(f"large-{number:04d}", group, LARGE_SEGMENTS, at))
        else:
            traffic.append(Traffic(at, group, LARGE_SEGMENTS))
    return tuple(rows), tuple(traffic)


def worlds(*, short: bool) -> list[WorldCase]:
    """The worlds of the table. In a short run they have fewer fan-outs and end sooner."""
    rows, count = (SHORT_WITH_ROWS, SHORT_OTHERS) if short else (WITH_ROWS, OTHERS)
    day, waiting = (DAY / 8, 100) if short else (DAY, 885)
    days = waiting / FANOUTS_A_SECOND
    by_one = backlog(round(day * FANOUTS_A_SECOND), publishers=1, with_rows=rows)
    by_many = backlog(waiting, publishers=CELEBRITIES, with_rows=rows)
    few, _ = backlog(rows, publishers=CELEBRITIES, with_rows=rows)
    # Enough that the bulk lane is busy with them when its queue is purged.
    busy, _ = backlog(WITH_ROWS, publishers=CELEBRITIES, with_rows=WITH_ROWS)
    purged, resumed = 4 * MINUTE, HOUR + day / 2
    beside = WorldCase(
        name=f"{_time(day)} of bulk backlog",
        others=others(count, until=0.8 * day),
        large=by_one[0],
        traffic=by_one[1],
    )
    return [
        beside,
        WorldCase(
            name=f"{waiting} fan-outs wait {_time(days)}",
            others=others(count, until=0.8 * days),
            large=by_many[0],
            traffic=by_many[1],
        ),
        WorldCase(
            name="bulk queue purged",
            others=others(count, after=purged - 2 * MINUTE, until=purged, losing=False),
            large=busy,
            purged_at=purged,
        ),
        WorldCase(
            name=f"bulk lane paused {_time(day / 2)}",
            others=others(count, until=resumed),
            large=few,
            paused=(HOUR, resumed),
        ),
        WorldCase(
            name=f"healthy, {STEADY_IN_FLIGHT} in flight",
            others=others(15, until=10 * MINUTE),
            steady=STEADY_IN_FLIGHT,
            days=PATIENCE / DAY,
        ),
        replace(beside, name=f"{beside.name}, queue not fair", is_fair=False),
    ]


def losses(segment: int, *, short: bool) -> WorldCase:
    """Posts that lose their plan order, or their only segment, at one moment.

    Plan orders are refused as they are sent. Some large fan-outs wait rightly.
    """
    large, traffic = backlog(SHORT_OTHERS, publishers=CELEBRITIES, with_rows=SHORT_WITH_ROWS)
    count = SHORT_AT_ONCE if short else AT_ONCE
    return WorldCase(
        name=f"{count:,} {'plan' if segment == PLAN else 'express'} orders lost at once",
        others=tuple(
            SweepPost(f"small-{n:05d}", f"publisher-{n:05d}", 1, MINUTE, frozenset({segment}))
            for n in range(count)
        ),
        large=large,
        traffic=traffic,
        refuses=segment == PLAN,
        is_timed=True,
        days=1,
    )


def _time(seconds: float) -> str:
    return f"{seconds / DAY:.0f} d" if seconds >= 2 * DAY else f"{seconds / HOUR:.0f} h"
