"""All kinds of worlds, and the kind of each seed."""

from __future__ import annotations

from random import Random

from proof.simulation.kinds import (
    broken,
    channels,
    operated,
    ordinary,
    rush,
    steady,
    undisturbed,
    weeks,
)
from proof.simulation.kinds.kind import Kind

KINDS: tuple[Kind, ...] = (
    ordinary.KIND,
    channels.KIND,
    operated.KIND,
    broken.KIND,
    weeks.KIND,
    steady.KIND,
    rush.KIND,
    undisturbed.KIND,
)


# The share of ordinary worlds with channels.
CHANNELS = 0.2


def kind_of(seed: int) -> Kind:
    """The kind that a seed draws, by the shares."""
    shares = [kind.share for kind in KINDS]
    # From a separate generator, so that a new kind changes no other runs.
    kind = Random(f"{seed} kind").choices(KINDS, shares)[0]
    # Also separate: other runs are as before channels existed.
    has_channels = kind is ordinary.KIND and Random(f"{seed} stage").random() < CHANNELS
    return channels.KIND if has_channels else kind


def kind_named(name: str) -> Kind:
    """The kind of this name; raises `KeyError` if there is none."""
    return {kind.name: kind for kind in KINDS}[name]
