"""Take out one guard of the product at a time: the simulation must find a violation.

`python -m simulation.mutations` applies each mutation of `mutations.diff` to a copy of the
packages, and runs seeds there until one has a violation. A guard that nothing misses is untested.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("fanfold", "fanfold_cli", "functions", "aws_model", "simulation")
MAX_SEEDS = 500


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
    seeds: int | None  # until the first violation; None if there was none
    by: str = ""  # the check


def copy_with(mutation: Mutation, target: Path) -> None:
    """Copy the packages with a mutation; raises `LookupError` if it does not fit the source."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, target / package, ignore=ignored)
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
            [sys.executable, "-m", "simulation", *seeds],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder, "PYTHONSAFEPATH": ""},
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
    return Caught(mutation, int(found[1]) - start + 1, found[2])


def table(results: Sequence[Caught]) -> str:
    """Guard, seeds and check, in columns."""
    width = max(len(result.mutation.guard) for result in results)
    lines = [f"{'guard':{width}}  seeds  noticed by"]
    for result in results:
        seeds = "-" if result.seeds is None else str(result.seeds)
        lines.append(f"{result.mutation.guard:{width}}  {seeds:>5}  {result.by or 'nothing'}")
    return "\n".join(lines)


def main() -> int:
    """Try the mutations; exit status 1 if any goes unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m simulation.mutations", description=__doc__)
    parser.add_argument("--seeds", type=int, default=MAX_SEEDS, help="maximum for each mutation")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at a time")
    parser.add_argument("--only", default="", help="only guards with this text in their name")
    chosen = parser.parse_args()
    wanted = [mutation for mutation in MUTATIONS if chosen.only in mutation.guard]
    if not wanted:
        parser.error(f"no guard has {chosen.only!r} in its name; mutations.diff has them all")
    results = []
    with ThreadPoolExecutor(chosen.jobs) as threads:
        tries = [
            threads.submit(catch, each, max_seeds=chosen.seeds, start=chosen.start)
            for each in wanted
        ]
        for number, each in enumerate(tries, 1):
            results.append(each.result())
            print(f"{number} of {len(tries)}: {results[-1].mutation.guard}", file=sys.stderr)
    print(table(results))
    caught = sum(result.seeds is not None for result in results)
    print(f"mutations: {caught} of {len(results)} caught")
    return 0 if caught == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
