"""Paired measuring: two contestants in one process, block by block, in the order A B B A.

What disturbs the machine disturbs both contestants, so their ratio is steadier than either's time.
Time is CPU of this process, user and system.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from proof.bench.figures import Bars, BenchResult, Figure, Row
from proof.bench.progress import with_progress

# Medians of resampled pairs; the middle 95 % of them are the interval.
RESAMPLES = 2_000


@dataclass(frozen=True)
class Contestant:
    """One way to do the work: `block` does `units` of it, after `ready`, which is not measured."""

    name: str
    block: Callable[[], None]
    units: int
    ready: Callable[[], object] = lambda: None

    def measure(self) -> float:
        """Seconds of CPU for one unit, measured over one block."""
        gc.collect()
        self.ready()
        began = time.process_time()
        self.block()
        return (time.process_time() - began) / self.units


@dataclass(frozen=True)
class Paired:
    """How many times cheaper ours is, with the 95 % interval; `ours` and `theirs` in seconds."""

    ratio: float
    low: float
    high: float
    ours: float
    theirs: float
    pairs: int

    @property
    def interval(self) -> str:
        return f"95 % between {self.low:.3g} and {self.high:.3g}, {self.pairs} pairs"


def compare(ours: Contestant, theirs: Contestant, *, rounds: int, what: str) -> Paired:
    """Measure both in turn, `rounds` times A B B A, after one unmeasured block each."""
    ours.block()
    theirs.block()
    pairs: list[tuple[float, float]] = []
    for _ in with_progress(what, range(rounds)):
        a, b = ours.measure(), theirs.measure()
        c, d = theirs.measure(), ours.measure()
        pairs += [(a, b), (d, c)]
    return paired(pairs)


def paired(pairs: Sequence[tuple[float, float]]) -> Paired:
    """The median of the ratios of pairs (ours, theirs), and its interval."""
    ratios = [theirs / ours for ours, theirs in pairs]
    draw = Random(0)  # the same interval for the same pairs
    medians = sorted(median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
    return Paired(
        ratio=median(ratios),
        low=medians[int(0.025 * RESAMPLES)],
        high=medians[int(0.975 * RESAMPLES)],
        ours=median(ours for ours, _ in pairs),
        theirs=median(theirs for _, theirs in pairs),
        pairs=len(pairs),
    )


def alone(contestant: Contestant, *, blocks: int) -> float:
    """Seconds of CPU for one unit: the median of some blocks."""
    contestant.block()
    return median(contestant.measure() for _ in range(blocks))


@dataclass(frozen=True, kw_only=True)
class Rivalry:
    """A bench that compares the CPU of our way and a rival's, and shows other ways beside them."""

    figure: str  # `<bench>.<figure>`
    target: float
    against: str
    unit: str  # of work, such as `page`
    title: str
    work: str
    rounds: int
    blocks_beside: int

    def result(
        self, ours: Contestant, theirs: Contestant, beside: Iterable[Contestant], pinned: str
    ) -> BenchResult:
        """Measure everybody; the rows and the chart are microseconds of CPU for one unit."""
        bench = self.figure.partition(".")[0]
        found = compare(ours, theirs, rounds=self.rounds, what=bench)
        micros = {ours.name: 1e6 * found.ours, theirs.name: 1e6 * found.theirs}
        for each in with_progress(f"{bench}, beside it", beside):
            micros[each.name] = 1e6 * alone(each, blocks=self.blocks_beside)
        return BenchResult(
            figures=[Figure(self.figure, found.ratio, self.target, "x", self.against, "higher")],
            rows=[
                Row(name, each, "µs", f"of CPU per {self.unit}") for name, each in micros.items()
            ],
            setting={"interval": found.interval, "work": self.work, "pinned": pinned},
            chart=Bars(title=self.title, unit="µs", bars=micros),
        )
