"""`python -m simulation --seeds 1000 --start 0`: many runs, each from its seed."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from simulation.checks.judge import violations
from simulation.kinds.drawn import KINDS, kind_named, kind_of
from simulation.kinds.kind import Kind
from simulation.lambdas import installed
from simulation.reached import missing, table
from simulation.world import World

PROGRESS_SECONDS = 5.0
TRACE_SHOWN = 60


@dataclass(frozen=True)
class Result:
    seed: int
    kind: str
    transport: str
    violations: tuple[str, ...] = ()
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)  # states, and how often
    trace: tuple[str, ...] = ()


def run(seed: int, kind: Kind | None = None) -> Result:
    """Run and check one seed, of its own kind or of another; only inside `installed()`."""
    world, kind = World(seed), kind or kind_of(seed)
    try:
        kind.live(world)
        found = violations(world, kind.checks)
    except Exception as error:  # noqa: BLE001 - a run that cannot be judged is a violation too
        found = [f"{type(error).__name__}: {traceback.format_exc()}"]
    world.reached.at_the_end()
    trace = tuple(world.trace) if found else ()
    faults, reached = world.faults.injected, world.reached.times
    return Result(seed, kind.name, world.transport, tuple(found), faults, reached, trace)


def _run_alone(seed: int, kind: Kind | None) -> Result:
    with installed():
        return run(seed, kind)


def run_all(seeds: range, jobs: int, kind: Kind | None = None) -> Iterator[Result]:
    """Run every seed, on `jobs` processes, in any order."""
    alone = partial(_run_alone, kind=kind)
    if jobs == 1:
        yield from map(alone, seeds)
        return
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(alone, seeds, chunksize=4)


def main() -> int:
    """Run the chosen seeds; exit status 1 if any has a violation."""
    parser = argparse.ArgumentParser(prog="python -m simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many runs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seconds", type=float, default=None, help="stop after as many seconds")
    parser.add_argument("--first", action="store_true", help="stop at the first violation")
    parser.add_argument("--trace", action="store_true", help="print the whole trace of a failure")
    parser.add_argument("--sometimes", action="store_true", help="fail if a state is not reached")
    parser.add_argument("--kind", choices=[each.name for each in KINDS], help="only this kind")
    chosen = parser.parse_args()
    kind = kind_named(chosen.kind) if chosen.kind else None
    seeds = range(chosen.start, chosen.start + chosen.seeds)
    faults: Counter[str] = Counter()
    transports: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    runs: Counter[str] = Counter()  # that have reached a state
    done = broken = 0
    began = reported = time.monotonic()
    for result in run_all(seeds, chosen.jobs, kind):
        done += 1
        faults += result.faults
        transports[result.transport] += 1
        reached += result.reached
        runs.update(result.reached.keys())
        if result.violations:
            broken += 1
            _report(result, whole=chosen.trace)
        now = time.monotonic()
        if now - reported > PROGRESS_SECONDS:
            rate = done / (now - began)
            left = (len(seeds) - done) / rate
            print(f"{done} of {len(seeds)} seeds, {rate:.1f}/s, {left:.0f} s left", file=sys.stderr)
            reported = now
        if chosen.seconds is not None and now - began > chosen.seconds:
            break
        if broken and chosen.first:
            break
    rate = done / (time.monotonic() - began)
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(faults.items()))
    print(f"{rate:.1f} seeds a second; faults: {kinds or 'none'}")
    injected = f"{faults.total():,} faults injected"
    through = ", ".join(f"{count:,} through {name}" for name, count in sorted(transports.items()))
    print(table(reached, runs, done))
    print(f"simulation: {done} seeds ({through}), {injected}, {broken} violations")
    unreached = list(missing(runs, done)) if chosen.sometimes else []
    for sentence in unreached:
        print(sentence)
    return 1 if broken or unreached else 0


def _report(result: Result, *, whole: bool) -> None:
    lines = result.trace if whole else result.trace[-TRACE_SHOWN:]
    print(*lines, sep="\n")
    print(f"seed {result.seed} goes through {result.transport}.")
    for violation in result.violations:
        print(f"seed {result.seed}: {violation}")
    again = f"--seeds 1 --start {result.seed} --kind {result.kind} --trace"
    print(f"To see it again: python -m simulation {again}")


if __name__ == "__main__":
    sys.exit(main())
