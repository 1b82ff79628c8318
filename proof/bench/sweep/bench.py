"""How soon does SWEEP send lost orders again, and what does it cost? In virtual time, but for cost.

The product's own code (`product.py`) runs in worlds that lose its orders (`cases.py`, `world.py`).
What a run costs is measured on its door (`cost.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from proof.bench.figures import BenchResult, Figure, Lines, Point, Row
from proof.bench.progress import with_progress
from proof.bench.sweep.cases import (
    LARGE_SEGMENTS,
    OTHERS,
    SEGMENTS_A_SECOND,
    SHORT_OTHERS,
    SHORT_WITH_ROWS,
    WITH_ROWS,
    losses,
    worlds,
)
from proof.bench.sweep.cost import Cost, Ledgers, costs
from proof.bench.sweep.product import Product, without_entries
from proof.bench.sweep.world import HOUR, PLAN, SweepWorld, WorldCase

LEDGERS = (
    Ledgers("none open", 0),
    Ledgers("1,000 open", 1_000),
    Ledgers("100,000 open", 100_000),
    Ledgers("10,000 lost", 10_000, are_lost=True),
)
SHORT_LEDGERS = (Ledgers("none open", 0), Ledgers("1,000 lost", 1_000, are_lost=True))


@dataclass(frozen=True)
class WorldResult:
    """What came of one world; the whole world is too large to keep."""

    case: WorldCase
    minutes: list[float]  # from the loss until all is sent again, of each fan-out, in order
    small: list[float]  # of those, unplanned ones and those of one segment
    several: list[float]
    extra_percent: float
    stalled: int
    unmended: int
    hours: float

    @property
    def worst(self) -> float:
        return self.minutes[-1]

    @property
    def row(self) -> Row:
        sizes = (
            f"{name} {median(found):,.0f} / {found[-1]:,.0f}"
            for name, found in (("small", self.small), ("several segments", self.several))
            if found
        )
        note = (
            f"worst; median {median(self.minutes):,.1f} ({', '.join(sizes)}); "
            f"extra messages {self.extra_percent:.1f} %"
        )
        if self.unmended:
            note += f"; {self.unmended} orders never sent again within {self.hours:.0f} h"
        if self.stalled:
            note += f"; {self.stalled} stalled"
        return Row(self.case.name, self.worst, "min", note)

    @property
    def line(self) -> list[Point]:
        """The percentage of fan-outs that are mended, over minutes."""
        count = len(self.minutes)
        return [(took, 100 * (n + 1) / count) for n, took in enumerate(self.minutes)]


def run(*, short: bool) -> BenchResult:
    """Live through each world, repair many losses at once, and measure the cost."""
    cases = worlds(short=short)
    steps: list[WorldCase | Ledgers] = [*cases]
    steps += [losses(segment, short=short) for segment in (PLAN, 0)]
    steps += SHORT_LEDGERS if short else LEDGERS
    found: list[WorldResult] = []
    cost: dict[str, Cost] = {}
    for step in with_progress("sweep", steps):
        if isinstance(step, Ledgers):
            cost[step.name] = costs(step)
        else:
            found.append(live_through(step))
    ours, at_once = found[:-2], found[-2:]
    return BenchResult(
        figures=_figures(ours, at_once),
        rows=[
            *(each.row for each in found),
            *(_cost_row(name, each) for name, each in cost.items()),
        ],
        setting={
            "others": f"{SHORT_OTHERS if short else OTHERS} fan-outs that lose orders, by world",
            "backlog": f"of the fan-outs with {LARGE_SEGMENTS:,} segments, "
            f"{SHORT_WITH_ROWS if short else WITH_ROWS} have a row in the ledger",
            "bulk lane": f"{SEGMENTS_A_SECOND:.1f} segments a second, the default budget",
            "time": "virtual, but for the cost of a run",
        },
        chart=Lines(
            title=f"Lost orders that are sent again, {cases[0].name}",
            x="minutes since the loss",
            y="% of the fan-outs",
            lines={cases[0].name: ours[0].line},
            log_x=True,
            steps=True,
        ),
    )


def live_through(case: WorldCase) -> WorldResult:
    with without_entries():
        world = SweepWorld(case).run(Product)
    minutes = world.mended
    by_size: dict[bool, list[float]] = {True: [], False: []}
    for fanout_id, took in minutes.items():
        by_size[world.posts[fanout_id].segments == 1].append(took)
    return WorldResult(
        case,
        sorted(minutes.values()),
        sorted(by_size[True]),
        sorted(by_size[False]),
        world.extra_percent,
        world.stalled,
        world.unmended,
        world.scheduler.now / HOUR,
    )


def _figures(ours: list[WorldResult], at_once: list[WorldResult]) -> list[Figure]:
    every, count = [*ours, *at_once], len(at_once[0].minutes)
    fair = [each for each in ours if each.case.is_fair]
    interrupted = [each for each in fair if each.case.paused or each.case.purged_at]
    return [
        Figure(
            name="sweep.mended_minutes",
            value=max(each.worst for each in fair if each not in interrupted),
            target=11,
            unit="min",
            against="the loss; ours: the slowest beside any backlog, and in busy healthy queues",
        ),
        Figure(
            name="sweep.after_interruption_minutes",
            value=max(each.worst for each in interrupted),
            target=15,
            unit="min",
            against="the purge of the bulk queue, or the end of its pause",
        ),
        Figure(
            name="sweep.repair_minutes",
            value=max(each.worst for each in at_once),
            target=10,
            unit="min",
            against=f"{count:,} plan or express orders lost at once; ours: all sent again",
        ),
        Figure(
            name="sweep.extra_messages",
            value=max(each.extra_percent for each in every),
            target=10,
            unit="%",
            against="one message for 5,000 followers, and one more for each that was lost",
        ),
        Figure(
            name="sweep.stalled",
            value=max(each.stalled for each in every),
            target=0,
            unit="fan-outs",
            against="all that only waited, or were mended",
        ),
    ]


def _cost_row(name: str, cost: Cost) -> Row:
    return Row(
        f"a run, {name}",
        cost.read_units,
        "read units",
        f"{cost.write_units:,.0f} write units; {cost.calls:,} calls; {cost.cpu:.2f} s of one vCPU, "
        f"as SWEEP has; {cost.wall:.1f} s with the model; {cost.peak_mb:.0f} MB",
    )
