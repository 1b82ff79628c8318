"""`python -m proof.simulation --seeds 1000 --start 0`: many runs, each from its seed.

With `--keep FOLDER`, progress is written there, and the same command continues from it. A run with
a violation is printed with the command that repeats it; the other runs continue.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from fanfold import names
from proof.simulation.checks.judge import violations
from proof.simulation.kinds.drawn import KINDS, kind_named, kind_of
from proof.simulation.kinds.kind import Kind
from proof.simulation.observed.reached import missing, table
from proof.simulation.progress import shown
from proof.simulation.tally import Tally, code_digest
from proof.simulation.world.lambdas import installed, lambdas

TRACE_SHOWN = 60
SAVE_SECONDS = 5.0
INTERRUPTED = 130  # the exit status of a command that Ctrl-C ended


@dataclass(frozen=True)
class SeedRun:
    seed: int
    kind: str
    transport: str
    violations: tuple[str, ...] = ()
    faults: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)  # states, and how often
    trace: tuple[str, ...] = ()
    entries: int = 0  # in timelines at the end, each of them checked


def run(seed: int, kind: Kind | None = None) -> SeedRun:
    """Run and check one seed, of its own or another kind; only inside `installed()`."""
    kind = kind or kind_of(seed)
    world = kind.make(seed)
    try:
        kind.live(world)
        found = violations(world, kind.checks)
    except Exception as error:  # noqa: BLE001 - a run that cannot be checked is a violation
        found = [f"{type(error).__name__}: {traceback.format_exc()}"]
    world.reached.at_the_end()
    trace = tuple(world.trace) if found else ()
    faults, reached = world.faults.injected, world.reached.times
    entries = len(world.rows(names.TIMELINES))
    return SeedRun(seed, kind.name, world.transport, tuple(found), faults, reached, trace, entries)


def _run_alone(seed: int, kind: Kind | None) -> SeedRun:
    with installed(), _collected_at_the_end():
        return run(seed, kind)


@contextmanager
def _collected_at_the_end() -> Iterator[None]:
    """Collect garbage once, after a run.

    Nearly all objects of a world live until its end, and copies of the functions' modules as long
    as the process. Collecting garbage during the run would cost a tenth of the time.
    """
    gc.disable()
    loaded = lambdas().count()
    try:
        yield
    finally:
        gc.collect()
        if lambdas().count() > loaded:
            gc.freeze()  # not examined again
        gc.enable()


class WorkerDied(Exception):
    """A process that runs seeds was killed, as it is when memory runs out."""

    def __init__(self, seeds: Sequence[int]) -> None:
        super().__init__(
            "A process was killed, perhaps because memory ran out, while these seeds ran: "
            f"{', '.join(map(str, seeds))}. To run one of them: "
            f"python -m proof.simulation --seeds 1 --start {seeds[0]}"
        )


def run_all(seeds: Sequence[int], jobs: int, kind: Kind | None = None) -> Iterator[SeedRun]:
    """Run every seed, on `jobs` processes, in any order; raises `WorkerDied`."""
    alone = partial(_run_alone, kind=kind)
    if jobs == 1:
        yield from map(alone, seeds)
        return
    waiting, under_way = iter(seeds), dict[Future[SeedRun], int]()
    with _processes(jobs) as pool:
        try:
            while True:
                for seed in islice(waiting, jobs + 1 - len(under_way)):  # one waits
                    under_way[pool.submit(alone, seed)] = seed
                if not under_way:
                    return
                for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                    result = future.result()
                    del under_way[future]
                    yield result
        except BrokenProcessPool:
            raise WorkerDied(sorted(under_way.values())) from None


@contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that are ended in mid-seed when the block ends."""
    others = multiprocessing.active_children()
    forking = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(jobs, forking, _begin) as pool:
        try:
            yield pool
        finally:
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Ignore Ctrl-C, and exclude objects from before the fork from garbage collection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.freeze()


def main() -> int:
    """Run the chosen seeds; exit status 1 if any has a violation, or a process was killed."""
    chosen = _arguments()
    code = code_digest() if chosen.keep else ""
    name = f"{chosen.kind or 'all'}-{chosen.start}-{chosen.seeds}.json"
    path = chosen.keep / name if chosen.keep else None
    tally = (path and Tally.load(path, code)) or Tally(chosen.start)
    if tally.done:
        print(f"{path}: {tally.done:,} seeds are done; delete it to start over.", file=sys.stderr)
    began, before = time.monotonic(), tally.done
    is_whole = False
    try:
        is_whole = _run_on(tally, chosen, path, code)
    except KeyboardInterrupt:
        again = ", and the same command continues" if path else ""
        print(f"Interrupted: {tally.done:,} seeds are done{again}.", file=sys.stderr)
        return INTERRUPTED
    except WorkerDied as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        if path and is_whole:
            path.unlink(missing_ok=True)
        elif path:
            tally.save(path, code)
    _print_sums(tally, rate=(tally.done - before) / (time.monotonic() - began))
    if chosen.sums:
        chosen.sums.write_text(json.dumps(tally.sums()))
    unreached = list(missing(tally.reached_by, tally.done)) if chosen.sometimes else []
    for sentence in unreached:
        print(sentence)
    return 1 if tally.broken or unreached else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m proof.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many runs")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--seconds", type=float, default=None, help="stop after this time")
    parser.add_argument("--first", action="store_true", help="stop at the first violation")
    parser.add_argument("--trace", action="store_true", help="print the whole trace of a failure")
    parser.add_argument("--sometimes", action="store_true", help="fail if a state is not reached")
    parser.add_argument("--kind", choices=[each.name for each in KINDS], help="only this kind")
    parser.add_argument("--keep", type=Path, help="store progress here, and continue from it")
    parser.add_argument("--sums", type=Path, help="write seeds, faults and entries to this file")
    return parser.parse_args()


def _run_on(tally: Tally, chosen: argparse.Namespace, path: Path | None, code: str) -> bool:
    """Run the seeds that are not done; return whether all are done."""
    kind = kind_named(chosen.kind) if chosen.kind else None
    seeds = range(chosen.start, chosen.start + chosen.seeds)
    left = [seed for seed in seeds if seed not in tally]
    began = saved = time.monotonic()
    with shown(len(left)) as show:
        for number, result in enumerate(run_all(left, chosen.jobs, kind), 1):
            is_broken = bool(result.violations)
            tally.add(
                result.seed,
                transport=result.transport,
                faults=result.faults,
                reached=result.reached,
                is_broken=is_broken,
                entries=result.entries,
            )
            if is_broken:
                _report(result, whole=chosen.trace)
            show(number)
            now = time.monotonic()
            if path and now - saved > SAVE_SECONDS:
                tally.save(path, code)
                saved = now
            if chosen.seconds is not None and now - began > chosen.seconds:
                break
            if is_broken and chosen.first:
                break
    return tally.done == len(seeds)


def _print_sums(tally: Tally, *, rate: float) -> None:
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(tally.faults.items()))
    print(f"{rate:.1f} seeds a second; faults: {kinds or 'none'}")
    injected = f"{tally.faults.total():,} faults injected"
    through = ", ".join(f"{n:,} through {name}" for name, n in sorted(tally.transports.items()))
    if tally.broken:
        print(f"seeds with violations: {', '.join(map(str, sorted(tally.broken)))}")
    print(table(tally.reached, tally.reached_by, tally.done))
    broken = len(tally.broken)
    print(f"simulation: {tally.done} seeds ({through}), {injected}, {broken} violations")


def _report(result: SeedRun, *, whole: bool) -> None:
    lines = result.trace if whole else result.trace[-TRACE_SHOWN:]
    print(*lines, sep="\n")
    print(f"seed {result.seed} goes through {result.transport}.")
    for violation in result.violations:
        print(f"seed {result.seed}: {violation}")
    again = f"--seeds 1 --start {result.seed} --kind {result.kind} --trace"
    print(f"To repeat it: python -m proof.simulation {again}")


if __name__ == "__main__":
    sys.exit(main())
