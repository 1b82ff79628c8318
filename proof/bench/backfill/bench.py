"""What a backfill misses in races with posts, and what a rush of follows leaves to deliveries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from statistics import median

from fanfold import names
from fanfold.budgets import RELATION_PERCENT, WRITER_MEMORY_MB, Budget
from fanfold_cli.cost.publish import Publish
from fanfold_cli.terminal import duration
from proof.bench.backfill.races import Raced, race
from proof.bench.backfill.rush import SMALL, RushPlan, RushResult, rush
from proof.bench.backfill.system import Way
from proof.bench.figures import BenchResult, Figure, Lines, Row
from proof.bench.progress import with_progress

OURS = Way()
WAYS = {
    "without the second pass": Way(looks_twice=False),
    "believing every page of the last minute": Way(is_careful=False, remembers_seconds=60),
    "without both": Way(looks_twice=False, is_careful=False),
    "without backfill": Way(posts=0),
}
# Of two races more than one is accepted in time to be missed. This number shows fewer than one in
# a thousand; the other ways miss more, and need fewer races.
RACES, OTHER_RACES = 9_000, 500
SHORT_RACES, SHORT_OTHER_RACES = 300, 60
CONFIDENCE = 0.95
MOST_MISSED, SHORT_MOST_MISSED = 1, 20  # of 1,000
# The share, and the batch that a worker may write at once after a pause.
MOST_PERCENT = RELATION_PERCENT + 0.5
# The objectives of docs/operations.md: of a publish to 100 followers, and beyond what `fanfold
# cost` says for a large one, until its first worker starts.
SMALL_SECONDS, START_SECONDS = 1.0, 1.0
# At a small capacity, small publishes half a second apart want more than the others leave.
SHORT = RushPlan(follows=7_340, seconds=200, capacity=4_000, large=100_000, apart_seconds=1.0)
# Tables as new take a tenth of what the budget divides.
COLD = RushPlan(follows=11_000, seconds=30, capacity=40_000, large=100_000, is_cold=True)
SHORT_COLD = replace(COLD, follows=1_000, seconds=20, large=20_000)


@dataclass(frozen=True)
class Rushes:
    """A rush with and without its follows."""

    plan: RushPlan
    beside: RushResult
    alone: RushResult


def run(*, short: bool) -> BenchResult:
    """Run races in the product's way and in worse ones, and rushes with and without follows."""
    races, others = (SHORT_RACES, SHORT_OTHER_RACES) if short else (RACES, OTHER_RACES)
    plan, cold = (SHORT, SHORT_COLD) if short else (RushPlan(), COLD)
    # In parallel: time is virtual, so one cannot slow down another.
    with ProcessPoolExecutor(mp_context=get_context("fork")) as processes:
        rushes = {
            each: [processes.submit(partial(rush, each, is_on=on)) for on in (True, False)]
            for each in (plan, cold)
        }
        ours = processes.submit(race, OURS, races)
        rivals = {name: processes.submit(race, way, others) for name, way in WAYS.items()}
        raced = ours.result()
        worse = {name: each.result() for name, each in with_progress("races", rivals.items())}
        warm, new = (
            Rushes(each, *(found.result() for found in both))
            for each, both in with_progress("rushes", rushes.items())
        )
    return BenchResult(
        figures=_figures(raced, warm, most_missed=SHORT_MOST_MISSED if short else MOST_MISSED),
        rows=[
            Row("missed", raced.missed, "posts", f"of {raced.raced:,} accepted before the answer"),
            Row("missed by fan-outs alone", *_missed(worse.pop("without backfill"))),
            *(Row(f"missed {name}", *_missed(found)) for name, found in worse.items()),
            *_rows(warm),
            *_cold_rows(new),
        ],
        setting={
            "races": f"{races:,} of a post and a follow that begin within the same second",
            "rush": f"{plan.follows:,} follows in {plan.seconds} s at {plan.capacity:,} units/s",
            "cold": f"{cold.follows:,} follows in {cold.seconds} s, with a budget of "
            f"{cold.capacity:,} units/s and tables that take 4,000",
            "time": "virtual; Lambda warm, and tables but for the last rows",
        },
        chart=Lines(
            title=f"Entries that RELATE puts in a rush of {plan.follows:,} follows",
            x="s",
            y="entries/s",
            lines={
                "backfill": warm.beside.by_second,
                "relation's share": [
                    (at, plan.capacity * RELATION_PERCENT / 100) for at, _ in warm.beside.by_second
                ],
            },
        ),
    )


def at_most(missed: int, raced: int) -> float:
    """The largest share missed with which so few of the races are missed once in twenty.

    It is the one-sided bound of Clopper and Pearson; the share lies above it in 5 % of such runs.
    """
    low, high = missed / raced, 1.0
    for _ in range(60):
        share = (low + high) / 2
        chance = sum(
            math.comb(raced, each) * share**each * (1 - share) ** (raced - each)
            for each in range(missed + 1)
        )
        low, high = (share, high) if chance > 1 - CONFIDENCE else (low, share)
    return high


def _figures(raced: Raced, warm: Rushes, *, most_missed: float) -> list[Figure]:
    plan, beside = warm.plan, warm.beside
    return [
        Figure(
            name="backfill.missed_in_1000_races",
            value=1_000 * at_most(raced.missed, raced.raced),
            target=most_missed,
            unit="posts",
            against=f"upper bound, with {CONFIDENCE:.0%} confidence: {raced.missed} of "
            f"{raced.raced:,} posts accepted before their follow was answered",
        ),
        Figure(
            name="backfill.promised_missed",
            value=raced.promised_missed,
            target=0,
            unit="posts",
            against=f"{raced.promised:,} posts accepted after their follow was answered",
        ),
        Figure(
            name="backfill.relation_share",
            value=100 * beside.share,
            target=MOST_PERCENT,
            unit="%",
            against="the write capacity, in the busiest minute",
        ),
        Figure(
            name="backfill.express_seconds",
            value=max(beside.small),
            target=SMALL_SECONDS,
            unit="s",
            against=f"the objective of a publish to {SMALL} followers; ours: the slowest beside a "
            "large one and the rush",
        ),
        Figure(
            name="backfill.bulk_seconds",
            value=beside.large,
            target=large_seconds(plan),
            unit="s",
            against=f"the objective of a publish to {plan.large:,} followers: what bulk's share "
            f"takes, by `fanfold cost`, and {START_SECONDS:g} s to begin",
        ),
    ]


def large_seconds(plan: RushPlan) -> float:
    """The objective of bulk: what its share of the capacity takes, and a moment to begin."""
    memory_mb = WRITER_MEMORY_MB[names.LIBCURL]
    return Publish.to(plan.large, Budget.of(plan.capacity), memory_mb=memory_mb).seconds + (
        START_SECONDS
    )


def _missed(found: Raced) -> tuple[float, str, str]:
    return 100 * found.share, "%", f"of {found.raced} posts"


def _rows(rushes: Rushes) -> list[Row]:
    plan, beside, alone = rushes.plan, rushes.beside, rushes.alone
    relations = plan.follows + len(beside.other_waits)
    return [
        Row("entries put in the rush", beside.entries, "entries", f"{plan.follows:,} follows"),
        Row("for each follow", beside.entries / relations, "entries", "30 while RELATE is idle"),
        Row("it lasts", beside.lasted, "s", f"{duration(beside.lasted)} from the first follow"),
        Row("its price", beside.dollars, "$", "write and read units, list prices"),
        Row("a follow's wait for its posts", median(beside.waits), "s", _most(beside.waits)),
        *_other_rows(beside, alone),
        Row("small publish, alone", 1_000 * median(alone.small), "ms", "median"),
        Row("small publish, in the rush", 1_000 * median(beside.small), "ms", "median"),
        Row("large publish, alone", alone.large, "s", f"{plan.large:,} followers"),
        Row("large publish, in the rush", beside.large, "s", f"{plan.large:,} followers"),
    ]


def _other_rows(beside: RushResult, alone: RushResult) -> list[Row]:
    return [
        Row(
            "another follow's wait for its posts",
            median(beside.other_waits),
            "s",
            f"of another publisher, begun half-way; {_most(beside.other_waits)}; "
            f"{median(alone.other_waits):.2f} s without the rush",
        ),
        Row(
            "another follow's answer",
            1_000 * median(beside.other_answers),
            "ms",
            f"{1_000 * median(alone.other_answers):.0f} ms without the rush",
        ),
    ]


def _cold_rows(rushes: Rushes) -> list[Row]:
    beside, alone = rushes.beside, rushes.alone
    of_table = rushes.plan.capacity / 4_000
    return [
        Row(
            "cold: RELATE's part",
            100 * of_table * beside.share,
            "%",
            "of the 4,000 units/s that the table takes, in the busiest minute",
        ),
        Row(
            "cold: small publish",
            median(beside.small),
            "s",
            f"{_most(beside.small)}; {median(alone.small):.2f} s without the rush",
        ),
        Row(
            "cold: large publish",
            beside.large,
            "s",
            f"{rushes.plan.large:,} followers; {alone.large:.0f} s without the rush",
        ),
        Row("cold: a follow's wait for its posts", median(beside.waits), "s", _most(beside.waits)),
        Row(
            "cold: another follow's wait",
            median(beside.other_waits),
            "s",
            f"{_most(beside.other_waits)}; {median(alone.other_waits):.2f} s without the rush",
        ),
    ]


def _most(seconds: Sequence[float]) -> str:
    return f"median; at most {max(seconds):.3g} s"
