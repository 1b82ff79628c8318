"""Sums of many runs, kept in a file so that an interrupted command can continue."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The code of a run. If any of it changes, earlier runs prove nothing.
PACKAGES = ("fanfold", "fanfold_cli", "functions", "proof/model", "proof/simulation")


@dataclass
class Tally:
    """The seeds that are done: all from `start` up to below `end`, and some `beyond`."""

    start: int
    end: int = -1
    beyond: set[int] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    transports: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)  # states, and how often
    reached_by: Counter[str] = field(default_factory=Counter)  # states, and by how many runs
    broken: list[int] = field(default_factory=list)  # seeds with a violation
    entries: int = 0  # in timelines at the ends of the runs, each of them checked

    def __post_init__(self) -> None:
        self.end = max(self.start, self.end)

    def __contains__(self, seed: int) -> bool:
        return self.start <= seed < self.end or seed in self.beyond

    @property
    def done(self) -> int:
        return self.end - self.start + len(self.beyond)

    def add(
        self,
        seed: int,
        *,
        transport: str,
        faults: Mapping[str, int],
        reached: Mapping[str, int],
        is_broken: bool,
        entries: int = 0,
    ) -> None:
        """Count a run."""
        self.transports[transport] += 1
        self.faults.update(faults)
        self.reached.update(reached)
        self.reached_by.update(reached.keys())
        self.entries += entries
        if is_broken:
            self.broken.append(seed)
        self.beyond.add(seed)
        while self.end in self.beyond:
            self.beyond.remove(self.end)
            self.end += 1

    def sums(self) -> dict[str, int]:
        """The sums of all runs."""
        return {"seeds": self.done, "faults": self.faults.total(), "entries": self.entries}

    def save(self, path: Path, code: str) -> None:
        """Write the file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {**vars(self), "code": code, "beyond": sorted(self.beyond)}
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(content))
        fresh.replace(path)

    @staticmethod
    def load(path: Path, code: str) -> Tally | None:
        """Read the file; None if it is missing or from other code."""
        if not path.exists():
            return None
        content = json.loads(path.read_text())
        if content.pop("code") != code:
            return None
        for name in ("faults", "transports", "reached", "reached_by"):
            content[name] = Counter(content[name])
        return Tally(**{**content, "beyond": set(content["beyond"])})


def code_digest() -> str:
    """A hash of the code."""
    digest = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
