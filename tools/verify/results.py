"""Results of stages, stored so that a stage does not run again with the same files."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.verify.stages import Stage

# Written at the end, so no stage may depend on them.
RECORD, BADGE = "docs/verified.json", "docs/verified.svg"


@dataclass(frozen=True)
class Result:
    """The end of a stage. `said` is its last line, or what failed."""

    stage: str
    key: str
    passed: bool
    seconds: float
    cpu_seconds: float
    said: str
    start: int = 0  # of the worlds that it drew
    end: int = 0  # the first world after them
    sums: Mapping[str, int] | None = None  # seeds, faults and entries of these worlds


def files(root: Path) -> dict[str, str]:
    """The SHA-256 of every file that git tracks or does not ignore, by path."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    found = ((path, root / path) for path in sorted({*listed} - {"", RECORD, BADGE}))
    return {
        path: hashlib.sha256(file.read_bytes()).hexdigest()
        for path, file in found
        if file.is_file()
    }


def key_of(stage: Stage, hashes: Mapping[str, str], *, seeds: int, day: str) -> str:
    """A hash of what a stage reads and runs."""
    read = {path: digest for path, digest in hashes.items() if stage.is_about(path)}
    drawn = (seeds, day) if stage.draws else ()
    # Without the interpreter's path, so that two equal checkouts have the same key.
    text = json.dumps([stage.command[1:], drawn, sorted(read.items())])
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Kept:
    """The results of this checkout, in a folder that git ignores."""

    folder: Path

    def log(self, stage: Stage) -> Path:
        return self.folder / f"{stage.name}.log"

    def workshop(self, stage: Stage, key: str) -> Path:
        """Where a stage stores its progress with these files."""
        return self.folder / f"{stage.name}-{key[:12]}"

    def result(self, stage: Stage) -> Result | None:
        """The last result of a stage, with any files."""
        path = self._path(stage)
        return Result(**json.loads(path.read_text())) if path.exists() else None

    def keep(self, result: Result) -> None:
        """Write a result atomically."""
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = self.folder / f"{result.stage}.new"
        fresh.write_text(json.dumps(asdict(result)))
        fresh.replace(self.folder / f"{result.stage}.json")

    def _path(self, stage: Stage) -> Path:
        return self.folder / f"{stage.name}.json"


def first_seed(day: str, ends: Iterable[int]) -> int:
    """The first seed of the day (such as 2026-11-24), after the `ends` of earlier runs."""
    of_the_day = int(day.replace("-", "")[2:]) * 100_000
    return max(of_the_day, *ends)


def table(results: Sequence[Result]) -> str:
    """One line for each stage."""
    width = max(len(result.stage) for result in results)
    lines = [f"{'stage':{width}}  {'':6}  {'time':>7}  {'CPU s':>6}"]
    for result in results:
        minutes, seconds = divmod(round(result.seconds), 60)
        state = "passed" if result.passed else "FAILED"
        lines.append(
            f"{result.stage:{width}}  {state:6}  {minutes:>4}:{seconds:02}  "
            f"{result.cpu_seconds:>6,.0f}  {result.said}"
        )
    return "\n".join(lines)


def recorded(root: Path) -> dict[str, Any]:
    """The last record, or an empty one."""
    path = root / RECORD
    return dict(json.loads(path.read_text())) if path.exists() else {}


def record(
    results: Sequence[Result], before: Mapping[str, Any], *, commit: str, day: str
) -> dict[str, Any]:
    """The content of `docs/verified.json`: every stage, and the sums of all runs so far."""
    ever: dict[str, Any] = {"since": day, "end": 0, "seeds": 0, "faults": 0, "entries": 0}
    ever |= before.get("simulated", {})
    for result in results:
        if result.sums is not None and result.start >= ever["end"]:
            ever |= {
                name: ever[name] + result.sums[name] for name in ("seeds", "faults", "entries")
            }
            ever["end"] = result.end
    stages = [
        {
            "stage": each.stage,
            "seconds": round(each.seconds),
            "cpu_seconds": round(each.cpu_seconds),
            "said": each.said,
        }
        for each in results
    ]
    return {"commit": commit, "date": day, "stages": stages, "simulated": ever}
