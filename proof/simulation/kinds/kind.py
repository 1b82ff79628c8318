"""What a kind of world is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from proof.simulation.checks.judge import CHECKS, Check
from proof.simulation.world.world import World


@dataclass(frozen=True)
class Kind:
    """How a world runs from beginning to end, and what must hold afterwards."""

    name: str
    share: float  # of the seeds
    live: Callable[[World], None]
    checks: tuple[Check, ...] = CHECKS
    make: Callable[[int], World] = World
