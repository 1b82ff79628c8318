"""`python -m proof.mutants`: try every listed mutant; a test or the simulation must notice it.

Exit status 1 if a guard is not noticed, if less than 95 % of the other mutants are, or if one of
these is neither noticed nor argued to be equivalent.
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

from proof.mutants import listing, running
from proof.mutants.listing import EQUIVALENT, LIST, SIMULATION, Mutant, Verdict

MIN_SHARE = 0.95
# Known tests first run on the unchanged code, this many at a time.
BASELINE_TESTS = 20
BASELINE_SECONDS = 600.0

Result = tuple[Mutant, Verdict]


def _attempt(mutant: Mutant, seeds: int | None) -> Result:
    return mutant, running.attempt(mutant, seeds=seeds)


def baseline(mutants: Iterable[Mutant], jobs: int) -> list[str]:
    """The failures of the known tests on the unchanged code: such tests would notice any mutant."""
    tests = sorted({each.known for each in mutants if each.known.startswith("tests/")})
    parts = [
        tests[start : start + BASELINE_TESTS] for start in range(0, len(tests), BASELINE_TESTS)
    ]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        verdicts = pool.starmap(
            running.run_tests, [(part, None, BASELINE_SECONDS) for part in parts], chunksize=1
        )
    return [verdict.by for verdict in verdicts if verdict.by]


def try_all(
    mutants: Sequence[Mutant], *, jobs: int, seeds: int | None, resume: Path | None
) -> list[Result]:
    """Try the mutants in `jobs` processes; the file `resume` stores results."""
    results = _kept(mutants, resume)
    known = {mutant.key for mutant, _ in results}
    left = [mutant for mutant in mutants if mutant.key not in known]
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        found = pool.imap_unordered(partial(_attempt, seeds=seeds), left, chunksize=1)
        for number, (mutant, verdict) in enumerate(found, 1):
            results.append((mutant, verdict))
            if resume:
                with resume.open("a") as file:
                    print(json.dumps([*mutant.key, asdict(verdict)]), file=file)
            by = f"{verdict.by or 'nobody'}{f' ({verdict.check})' if verdict.check else ''}"
            told = f"{number} of {len(left)}: {mutant.file}, {mutant.name} | {by}"
            print(told, file=sys.stderr)
    return results


def _kept(mutants: Sequence[Mutant], resume: Path | None) -> list[Result]:
    if resume is None or not resume.exists():
        return []
    lines = [json.loads(line) for line in resume.read_text().splitlines()]
    verdicts = {(file, old, new): Verdict(**verdict) for file, old, new, verdict in lines}
    return [(each, verdicts[each.key]) for each in mutants if each.key in verdicts]


def table(results: Iterable[Result]) -> str:
    """Who noticed the mutants of each module."""
    counts: dict[str, Counter[str]] = {}
    for mutant, verdict in results:
        by = "survived"
        if verdict.by:
            by = "simulation" if verdict.by.startswith(SIMULATION) else "tests"
        told = (by, "mutants", *(["time"] if verdict.timed_out else []))
        counts.setdefault(mutant.file, Counter()).update(told)
    columns = ("mutants", "tests", "simulation", "survived", "time")
    width = max(map(len, counts))
    lines = [" ".join([f"{'module':{width}}", *(f"{each:>10}" for each in columns)])]
    rows = [(file, counts[file]) for file in sorted(counts, key=listing.place)]
    for file, count in [*rows, ("all", sum(counts.values(), Counter[str]()))]:
        lines.append(" ".join([f"{file:{width}}", *(f"{count[each]:>10}" for each in columns)]))
    return "\n".join(lines)


def judge(results: Sequence[Result]) -> list[str]:
    """What is wrong: surviving guards, unargued survivors, and too few noticed mutants."""
    wrong: list[str] = []
    for mutant, verdict in results:
        if not verdict.by and not mutant.is_argued:
            wrong.append(f"{mutant.file}, {mutant.name} survived:\n{_shown(mutant)}")
    others = [bool(verdict.by) for mutant, verdict in results if not mutant.is_guard]
    if sum(others) < MIN_SHARE * len(others):
        wrong.append(f"Less than {MIN_SHARE:.0%} of the mutants are noticed.")
    return wrong


def _shown(mutant: Mutant) -> str:
    old = [f"-{line}" for line in mutant.old.split("\n")]
    return "\n".join([*old, *(f"+{line}" for line in mutant.new.split("\n"))])


def note(results: Iterable[Result]) -> None:
    """Write into the list who noticed each mutant; reasons stay."""
    by = {mutant.key: verdict.by for mutant, verdict in results}
    listing.write(
        each if each.is_argued else replace(each, known=by.get(each.key, each.known))
        for each in listing.read()
    )


def main() -> int:
    """Try the list, or change it."""
    parser = argparse.ArgumentParser(prog="python -m proof.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="only files or names with this text")
    sorts = parser.add_mutually_exclusive_group()
    sorts.add_argument("--guards", action="store_true", help="only guards, for the simulation")
    sorts.add_argument("--others", action="store_true", help="no guards")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--seeds", type=int, help="at most, for each that no test notices")
    parser.add_argument("--resume", type=Path, help="store results here, and continue from them")
    parser.add_argument("--note", action="store_true", help="write into the list who noticed")
    options = parser.parse_args()
    wanted = [
        each
        for each in listing.read()
        if options.only in f"{each.file} {each.name}"
        and not (options.others if each.is_guard else options.guards)
    ]
    if not wanted:
        parser.error(f"{LIST.name} has none with {options.only!r}")
    try:
        for each in wanted:
            each.source()
    except LookupError as error:
        print(error.args[0])
        return 1
    began = time.monotonic()
    if not all(each.is_guard for each in wanted):
        running.prepare()
    if failures := baseline(wanted, options.jobs):
        print("These tests fail on the unchanged code; fix them first:", *failures, sep="\n")
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
    for sort, is_guard in (("guards", True), ("mutants", False)):
        found = [bool(verdict.by) for mutant, verdict in results if mutant.is_guard == is_guard]
        if found:
            seconds, share = time.monotonic() - began, sum(found) / len(found)
            of = f"{sum(found)} of {len(found)}"
            print(f"{sort}: {of} noticed ({share:.1%}), in {seconds:.0f} s")
    wrong = judge(results)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
