"""Paired measuring: two contestants in one process, block by block, in the order A B B A.

What disturbs the machine disturbs both, so their ratio holds where seconds do not. Time is CPU of
this process, user and system.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from bench.progress import with_progress

# Resampled medians, of which the middle 95 % are the interval.
RESAMPLES = 2_000


@dataclass(frozen=True)
class Contestant:
    """One way to do the work. `block` does `units` of it; `ready` comes before, unmeasured."""

    name: str
    block: Callable[[], None]
    units: int
    ready: Callable[[], object] = lambda: None

    def measure(self) -> float:
        """Seconds of CPU for one unit, of one block."""
        gc.collect()
        self.ready()
        began = time.process_time()
        self.block()
        return (time.process_time() - began) / self.units


@dataclass(frozen=True)
class Paired:
    """How many times cheaper ours is, with the 95 % interval, and seconds of CPU for one unit."""

    ratio: float
    low: float
    high: float
    ours: float
    theirs: float
    pairs: int

    @property
    def interval(self) -> str:
        """The interval in words."""
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
    """What pairs (ours, theirs) say: the median of their ratios, and how sure it is."""
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
    """Seconds of CPU for one unit: the median of some blocks, for a row beside."""
    contestant.block()
    return median(contestant.measure() for _ in range(blocks))
