"""What a backfill misses in races with posts, and what a rush of follows leaves to deliveries."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from statistics import median

from bench.backfill.races import Raced, race
from bench.backfill.rush import Found, Plan, rush
from bench.backfill.system import Way
from bench.figures import Figure, Lines, Result, Row
from bench.progress import with_progress
from fanfold.budgets import RELATION_PERCENT
from fanfold_cli.commands.cost import duration

OURS = Way()
WAYS = {
    "without the second look": Way(looks_twice=False),
    "believing every page of the last minute": Way(is_careful=False, remembers_seconds=60),
    "without both": Way(looks_twice=False, is_careful=False),
    "without backfill": Way(posts=0),
}
# Of the other ways fewer: they miss more.
RACES, OTHER_RACES = 5_000, 500
SHORT_RACES, SHORT_OTHER_RACES = 300, 60
# The share, and the batch that a worker may write at once after a pause.
MOST_PERCENT = RELATION_PERCENT + 0.5
# At a small capacity, small publishes half a second apart want more than the others leave.
SHORT = Plan(follows=7_340, seconds=200, capacity=4_000, large=100_000, apart_seconds=1.0)


def run(*, short: bool) -> Result:
    """Run races in the product's way and in worse ones, and a rush with and without follows."""
    races, others = (SHORT_RACES, SHORT_OTHER_RACES) if short else (RACES, OTHER_RACES)
    plan = SHORT if short else Plan()
    # In parallel: time is virtual, so one cannot slow down another.
    with ProcessPoolExecutor(mp_context=get_context("fork")) as processes:
        rushes = [processes.submit(partial(rush, plan, is_on=on)) for on in (True, False)]
        ours = processes.submit(race, OURS, races)
        rivals = {name: processes.submit(race, way, others) for name, way in WAYS.items()}
        raced = ours.result()
        worse = {name: each.result() for name, each in with_progress("races", rivals.items())}
        beside, alone = [each.result() for each in with_progress("a rush", rushes)]
    return Result(
        figures=_figures(raced, beside, alone),
        rows=[
            Row("missed by fan-outs alone", *_missed(worse.pop("without backfill"))),
            *(Row(f"missed {name}", *_missed(found)) for name, found in worse.items()),
            *_rows(plan, beside, alone),
        ],
        setting={
            "races": f"{races:,} of a post and a follow that begin within the same second",
            "rush": f"{plan.follows:,} follows in {plan.seconds} s at {plan.capacity:,} units/s",
            "time": "virtual; tables and Lambda warm",
        },
        chart=Lines(
            title=f"Entries that RELATE puts in a rush of {plan.follows:,} follows",
            x="s",
            y="entries/s",
            lines={
                "backfill": beside.by_second,
                "relation's share": [
                    (at, plan.capacity * RELATION_PERCENT / 100) for at, _ in beside.by_second
                ],
            },
        ),
    )


def _figures(raced: Raced, beside: Found, alone: Found) -> list[Figure]:
    return [
        Figure(
            name="backfill.missed_in_1000_races",
            value=1_000 * raced.share,
            target=1,
            unit="posts",
            better="lower",
            against=f"{raced.raced:,} posts accepted before their follow was answered",
        ),
        Figure(
            name="backfill.promised_missed",
            value=raced.promised_missed,
            target=0,
            unit="posts",
            better="lower",
            against=f"{raced.promised:,} posts accepted after their follow was answered",
        ),
        Figure(
            name="backfill.relation_share",
            value=100 * beside.share,
            target=MOST_PERCENT,
            unit="%",
            better="lower",
            against="the write capacity, in the busiest minute",
        ),
        Figure(
            name="backfill.small_publish_ratio",
            value=max(beside.small) / median(alone.small),
            target=3.0,
            unit="x",
            better="lower",
            against="the median publish to 100 followers beside the large one alone; ours: the "
            "slowest beside the large one and the rush",
        ),
        Figure(
            name="backfill.large_publish_ratio",
            value=beside.large / alone.large,
            target=1.15,
            unit="x",
            better="lower",
            against="the large publish without the rush",
        ),
    ]


def _missed(found: Raced) -> tuple[float, str, str]:
    return 100 * found.share, "%", f"of {found.raced} posts"


def _rows(plan: Plan, beside: Found, alone: Found) -> list[Row]:
    waits = sorted(beside.waits)
    return [
        Row("entries put in the rush", beside.entries, "entries", f"{plan.follows:,} follows"),
        Row("for each follow", beside.entries / plan.follows, "entries", "30 while RELATE is idle"),
        Row("it lasts", beside.lasted, "s", f"{duration(beside.lasted)} from the first follow"),
        Row("its price", beside.dollars, "$", "write and read units, list prices"),
        Row(
            "a follow's wait for its posts",
            median(waits),
            "s",
            f"median; at most {waits[-1]:.0f} s",
        ),
        Row("small publish, alone", 1_000 * median(alone.small), "ms", "median"),
        Row("small publish, in the rush", 1_000 * median(beside.small), "ms", "median"),
        Row("large publish, alone", alone.large, "s", f"{plan.large:,} followers"),
        Row("large publish, in the rush", beside.large, "s", f"{plan.large:,} followers"),
    ]
