"""`python -m mutants`: try every listed mutant; a test or the simulation must notice it.

Exit status 1 if less than 95 % are noticed, or one is not that is not argued to be equivalent.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from mutants import listing, running
from mutants.listing import EQUIVALENT, LIST, MODULES, SIMULATION, Mutant
from mutants.running import Verdict

MIN_SHARE = 0.95
PROGRESS_SECONDS = 10.0
# The tests that are known to notice something are first run on the code as it is, so many at once.
BASELINE_TESTS = 20
BASELINE_SECONDS = 600.0

Result = tuple[Mutant, Verdict]


def _attempt(mutant: Mutant, seeds: int) -> Result:
    return mutant, running.attempt(mutant, seeds=seeds)


def _baseline(tests: Sequence[str]) -> Verdict:
    return running.run_tests(tests, None, BASELINE_SECONDS)


def baseline(mutants: Iterable[Mutant], jobs: int) -> list[str]:
    """The failures of the known tests on the code as it is: they would notice anything."""
    tests = sorted({each.known for each in mutants if each.known.startswith("tests/")})
    parts = [
        tests[start : start + BASELINE_TESTS] for start in range(0, len(tests), BASELINE_TESTS)
    ]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        return [verdict.by for verdict in pool.map(_baseline, parts, chunksize=1) if verdict.by]


def try_all(
    mutants: Sequence[Mutant], *, jobs: int, seeds: int, resume: Path | None
) -> list[Result]:
    """Try the mutants on `jobs` processes; results are kept in the file `resume`."""
    results = _kept(mutants, resume)
    known = {mutant.key for mutant, _ in results}
    left = [mutant for mutant in mutants if mutant.key not in known]
    began = reported = time.monotonic()
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        found = pool.imap_unordered(partial(_attempt, seeds=seeds), left, chunksize=1)
        for number, (mutant, verdict) in enumerate(found, 1):
            results.append((mutant, verdict))
            if resume:
                with resume.open("a") as file:
                    print(json.dumps([*mutant.key, asdict(verdict)]), file=file)
            now = time.monotonic()
            if now - reported > PROGRESS_SECONDS:
                rate = number / (now - began)
                print(
                    f"{number} of {len(left)} mutants, {rate:.1f}/s, "
                    f"{(len(left) - number) / rate:.0f} s left",
                    file=sys.stderr,
                )
                reported = now
    return results


def _kept(mutants: Sequence[Mutant], resume: Path | None) -> list[Result]:
    if resume is None or not resume.exists():
        return []
    lines = [json.loads(line) for line in resume.read_text().splitlines()]
    verdicts = {(file, old, new): Verdict(**verdict) for file, old, new, verdict in lines}
    return [(each, verdicts[each.key]) for each in mutants if each.key in verdicts]


def table(results: Iterable[Result]) -> str:
    """Who noticed the mutants of each module."""
    counts = {file: Counter[str]() for file in MODULES}
    for mutant, verdict in results:
        by = "survived"
        if verdict.by:
            by = "simulation" if verdict.by.startswith(SIMULATION) else "tests"
        counts[mutant.file].update((by, "mutants", *(["time"] if verdict.timed_out else [])))
    columns = ("mutants", "tests", "simulation", "survived", "time")
    width = max(map(len, MODULES))
    lines = [" ".join([f"{'module':{width}}", *(f"{each:>10}" for each in columns)])]
    rows = [*((file, count) for file, count in counts.items() if count)]
    for file, count in [*rows, ("all", sum(counts.values(), Counter[str]()))]:
        lines.append(" ".join([f"{file:{width}}", *(f"{count[each]:>10}" for each in columns)]))
    return "\n".join(lines)


def judge(results: Sequence[Result]) -> list[str]:
    """What is wrong: survivors without an argument, and too few that are noticed."""
    wrong: list[str] = []
    for mutant, verdict in results:
        if not verdict.by and not mutant.is_argued:
            wrong.append(f"{mutant.file}, {mutant.name} survived:\n{_shown(mutant)}")
    caught = sum(bool(verdict.by) for _, verdict in results)
    if caught < MIN_SHARE * len(results):
        wrong.append(f"Less than {MIN_SHARE:.0%} of the mutants are noticed.")
    return wrong


def _shown(mutant: Mutant) -> str:
    old = [f"-{line}" for line in mutant.old.split("\n")]
    return "\n".join([*old, *(f"+{line}" for line in mutant.new.split("\n"))])


def note(results: Iterable[Result]) -> None:
    """Write into the list who noticed each mutant; a reason stays."""
    by = {mutant.key: verdict.by for mutant, verdict in results}
    listing.write(
        each if each.is_argued else replace(each, known=by.get(each.key, each.known))
        for each in listing.read()
    )


def extend() -> None:
    """Add to the list what is chosen of each module and not listed yet."""
    listed = listing.read()
    keys = {each.key for each in listed}
    more = [
        each
        for file in MODULES
        for each in listing.chosen(listing.possible(file))
        if each.key not in keys
    ]
    listing.write([*listed, *more])
    print(f"{len(more)} mutants are new in {LIST.name}.")


def main() -> int:
    """Try the list, or change it."""
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    parser.add_argument("--only", default="", help="only files or functions with this text")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--seeds", type=int, default=running.SEEDS, help="for each survivor")
    parser.add_argument("--resume", type=Path, help="keep results in this file, and go on from it")
    parser.add_argument("--note", action="store_true", help="note who noticed, in the list")
    parser.add_argument("--all", action="store_true", help="print every possible mutant, to pick")
    parser.add_argument("--extend", action="store_true", help="add what is chosen by hash")
    options = parser.parse_args()
    if options.extend:
        extend()
        return 0
    if options.all:
        for file in [file for file in MODULES if options.only in file]:
            for each in listing.possible(file):
                print(f"@@ {each.name}\n{_shown(each)}")
        return 0
    wanted = [each for each in listing.read() if options.only in f"{each.file} {each.name}"]
    try:
        for each in wanted:
            each.source()
    except LookupError as error:
        print(error.args[0])
        return 1
    running.prepare()
    began = time.monotonic()
    if failures := baseline(wanted, options.jobs):
        print("These tests fail on the code as it is; mend them first:", *failures, sep="\n")
        return 1
    results = try_all(wanted, jobs=options.jobs, seeds=options.seeds, resume=options.resume)
    if options.note:
        note(results)
    print(table(results))
    for mutant, verdict in results:
        if verdict.timed_out:
            print(f"Ended by time: {mutant.file}, {mutant.name}, at {verdict.by}.")
        if mutant.is_argued:
            reason = mutant.known.removeprefix(EQUIVALENT)
            print(f"Not tried: {mutant.file}, {mutant.name} is equivalent: {reason}.")
    caught = sum(bool(verdict.by) for _, verdict in results)
    seconds = time.monotonic() - began
    share = caught / max(1, len(results))
    print(f"mutants: {caught} of {len(results)} noticed ({share:.1%}), in {seconds:.0f} s")
    wrong = judge(results)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
