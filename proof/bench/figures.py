"""What a bench finds: figures with a target, rows to read beside them, and a chart, all as data.

Every bench is a folder with a module `bench.py`, and in it `run(*, short: bool) -> Result`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

Better = Literal["higher", "lower"]
Point = tuple[float, float]


@dataclass(frozen=True)
class Figure:
    """A number with a target."""

    name: str  # `<bench>.<figure>`
    value: float
    target: float
    unit: str
    against: str  # what it is compared with
    better: Better = "lower"

    @property
    def met(self) -> bool:
        return self.reaches(1.0)

    def reaches(self, share: float) -> bool:
        """Whether this share of the target is reached: gates ask for less than all of it."""
        if self.better == "higher":
            return self.value >= share * self.target
        return self.value <= self.target / share

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "value": round(self.value, 4)}


@dataclass(frozen=True)
class Row:
    """A number without a target, which explains the figures."""

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
class BenchResult:
    """What one bench found. `setting` says how: what was pinned where, how many, how often."""

    figures: Sequence[Figure]
    rows: Sequence[Row] = ()
    setting: Mapping[str, str] = field(default_factory=dict)
    chart: Chart | None = None
