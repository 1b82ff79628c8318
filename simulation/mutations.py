"""Take out one guard of the product at a time: the simulation must find a violation.

`python -m simulation.mutations` applies each mutation of `mutations.diff` to a copy of the
packages, and runs seeds there until one has a violation: first the one that noticed it the last
time (`noticed.json`, written with `--note`). A guard that nothing misses is untested.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("fanfold", "fanfold_cli", "functions", "aws_model", "simulation")
MAX_SEEDS = 500
# By guard, the seed that noticed its absence the last time.
NOTICED = Path(__file__).with_name("noticed.json")


@dataclass(frozen=True)
class Mutation:
    """A guard of the product, and what the source says with it and without it."""

    guard: str
    file: str
    old: str
    new: str
    kind: str = ""  # of the worlds that must notice; by default as seeds draw them


def _parsed(diff: str) -> Iterator[Mutation]:
    file, guard = "", ""
    kinds: dict[str, str] = {}  # by guard
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for line in diff.splitlines():
        if line.startswith("--- "):
            file = line[4:]
        elif line.startswith("@@ "):
            guard = line[3:]
        elif line.startswith("@kind "):
            kinds[guard] = line[6:]
        elif line[:1] in ("-", "+"):
            found.setdefault((guard, file), {"-": [], "+": []})[line[0]].append(line[1:])
    for (guard, file), lines in found.items():
        old, new = "\n".join(lines["-"]), "\n".join(lines["+"])
        yield Mutation(guard, file, old, new, kinds.get(guard, ""))


MUTATIONS = tuple(_parsed(Path(__file__).with_suffix(".diff").read_text()))


@dataclass(frozen=True)
class Caught:
    mutation: Mutation
    seed: int | None  # that had the first violation; None if none had one
    by: str = ""  # the check


def copy_with(mutation: Mutation, target: Path) -> None:
    """Copy the packages with a mutation; raises `LookupError` if it does not fit the source."""
    for package in PACKAGES:
        # With the bytecode: it is good for all files but the one that is written below.
        shutil.copytree(ROOT / package, target / package)
    path = target / mutation.file
    source = path.read_text()
    if source.count(mutation.old) != 1:
        raise LookupError(f"{mutation.file} must hold the guard '{mutation.guard}' exactly once.")
    path.write_text(source.replace(mutation.old, mutation.new))


def catch(
    mutation: Mutation, *, max_seeds: int, start: int, seconds: float | None = None
) -> Caught:
    """Run seeds on a mutated copy until one has a violation.

    Raises `subprocess.TimeoutExpired` if that takes longer than `seconds`.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy_with(mutation, Path(folder))
        seeds = ["--seeds", str(max_seeds), "--start", str(start), "--jobs", "1", "--first"]
        if mutation.kind:
            seeds += ["--kind", mutation.kind]
        done = subprocess.run(
            [sys.executable, "-P", "-m", "simulation", *seeds],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
    if done.returncode not in (0, 1):
        raise RuntimeError(done.stderr)
    found = re.search(r"^seed (\d+): (\w+)", done.stdout, re.MULTILINE)
    if found is None:
        return Caught(mutation, None)
    return Caught(mutation, int(found[1]), found[2])


def noticed() -> dict[str, int]:
    """By guard, the seed that noticed its absence the last time."""
    return dict(json.loads(NOTICED.read_text())) if NOTICED.exists() else {}


def _caught(mutation: Mutation, known: int | None, *, max_seeds: int, start: int) -> Caught:
    """Ask the seed that noticed it the last time, then all."""
    if known is not None:
        result = catch(mutation, max_seeds=1, start=known)
        if result.seed is not None:
            return result
    return catch(mutation, max_seeds=max_seeds, start=start)


def _kept(resume: Path | None) -> dict[str, tuple[int | None, str]]:
    """By guard, what an interrupted command had found: the seed and the check."""
    if resume is None or not resume.exists():
        return {}
    return {
        guard: (seed, by) for guard, seed, by in map(json.loads, resume.read_text().splitlines())
    }


def table(results: Sequence[Caught]) -> str:
    """Guard, seed and check, in columns."""
    width = max(len(result.mutation.guard) for result in results)
    lines = [f"{'guard':{width}}  {'seed':>10}  noticed by"]
    for result in results:
        seed = "-" if result.seed is None else str(result.seed)
        lines.append(f"{result.mutation.guard:{width}}  {seed:>10}  {result.by or 'nothing'}")
    return "\n".join(lines)


def main() -> int:
    """Try the mutations; exit status 1 if any goes unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m simulation.mutations", description=__doc__)
    parser.add_argument("--seeds", type=int, default=MAX_SEEDS, help="maximum for each mutation")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--only", default="", help="only guards with this text in their name")
    parser.add_argument("--resume", type=Path, help="keep results in this file, and go on from it")
    parser.add_argument("--note", action="store_true", help="keep in noticed.json who noticed each")
    chosen = parser.parse_args()
    wanted = [mutation for mutation in MUTATIONS if chosen.only in mutation.guard]
    if not wanted:
        parser.error(f"no guard has {chosen.only!r} in its name; mutations.diff has them all")
    kept, known = _kept(chosen.resume), noticed()
    results = [Caught(each, *kept[each.guard]) for each in wanted if each.guard in kept]
    left = [each for each in wanted if each.guard not in kept]
    with ThreadPoolExecutor(chosen.jobs) as threads:
        tries = [
            threads.submit(
                _caught, each, known.get(each.guard), max_seeds=chosen.seeds, start=chosen.start
            )
            for each in left
        ]
        for number, each in enumerate(as_completed(tries), 1):
            result = each.result()
            results.append(result)
            if chosen.resume:
                with chosen.resume.open("a") as file:
                    print(json.dumps([result.mutation.guard, result.seed, result.by]), file=file)
            print(f"{number} of {len(tries)}: {result.mutation.guard}", file=sys.stderr)
    results.sort(key=lambda result: result.mutation.guard)
    if chosen.note:
        found = {each.mutation.guard: each.seed for each in results if each.seed is not None}
        guards = {each.guard for each in MUTATIONS}
        kept_seeds = {guard: seed for guard, seed in (known | found).items() if guard in guards}
        NOTICED.write_text(f"{json.dumps(kept_seeds, indent=1, sort_keys=True)}\n")
    print(table(results))
    caught = sum(result.seed is not None for result in results)
    print(f"mutations: {caught} of {len(results)} caught")
    return 0 if caught == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
