"""The syntax tree of DynamoDB's expressions.

Names are resolved and values stay placeholders, so one tree serves every call with the same text
and names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias


@dataclass(frozen=True)
class Path:
    """A document path such as `resume.#segment` or `list[0]`, with its names resolved."""

    parts: tuple[str | int, ...]


@dataclass(frozen=True)
class Placeholder:
    """A value of the request by its name, colon included."""

    name: str


@dataclass(frozen=True)
class Call:
    """A function of operands; a sum is the function `+`, a difference `-`."""

    function: str
    operands: tuple[Operand, ...]


Operand: TypeAlias = Path | Placeholder | Call


@dataclass(frozen=True)
class Comparison:
    """`left operator right`; BETWEEN and IN have several operands on the right."""

    operator: str
    left: Operand
    right: tuple[Operand, ...]


@dataclass(frozen=True)
class Logic:
    operator: str
    parts: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Logic | Call


@dataclass(frozen=True)
class Action:
    """One action of an update: SET, REMOVE, ADD or DELETE at a path."""

    verb: str
    path: Path
    operand: Operand | None = None


def clash(paths: Sequence[Path]) -> str | None:
    """How two of the paths clash.

    They overlap if one is the other or lies within it; they conflict if they take one place for a
    map and for a list.
    """
    for path, other in combinations(paths, 2):
        pairs = zip(path.parts, other.parts, strict=False)
        one, another = next((pair for pair in pairs if pair[0] != pair[1]), (None, None))
        if one is None:
            return "overlap"
        if isinstance(one, int) is not isinstance(another, int):
            return "conflict"
    return None
