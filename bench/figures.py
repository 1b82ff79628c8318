"""What a bench finds: figures with a target, rows to read beside them, and a chart, all as data.

Every bench is a folder with a module `bench.py`, and in it `run(*, short: bool) -> Result`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Better = Literal["higher", "lower"]
Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One number that is held to a target."""

    name: str  # `<bench>.<figure>`
    value: float
    target: float
    unit: str
    better: Better
    against: str  # what it is compared with

    @property
    def met(self) -> bool:
        """Whether the target is reached."""
        return self.reaches(1.0)

    def reaches(self, share: float) -> bool:
        """Whether so much of the target is reached; 0.7 is what a gate asks on a busy machine."""
        if self.better == "higher":
            return self.value >= share * self.target
        return self.value <= self.target / share

    def as_json(self) -> dict[str, Any]:
        """The figure as one line of `--json` has it."""
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "target": self.target,
            "unit": self.unit,
            "better": self.better,
            "against": self.against,
        }


@dataclass(frozen=True)
class Row:
    """A number without a target that makes the figures understood."""

    name: str
    value: float
    unit: str
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Bars:
    """A chart of one bar for each name, in the order given."""

    title: str
    unit: str
    bars: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class Lines:
    """A chart of one line for each name, through its points (x, y)."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Sequence[Point]]
    log_x: bool = False
    log_y: bool = False
    steps: bool = False  # a value holds until the next point


Chart: TypeAlias = Bars | Lines


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one bench found. `setting` says how: what was pinned where, how many, how often."""

    figures: Sequence[Figure]
    rows: Sequence[Row] = ()
    setting: Mapping[str, str] = field(default_factory=dict)
    chart: Chart | None = None
