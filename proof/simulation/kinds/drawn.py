"""All kinds of worlds, and which one a seed makes."""

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


# The share of ordinary worlds that are of a stage with channels.
CHANNELS = 0.2


def kind_of(seed: int) -> Kind:
    """The kind that a seed draws, by the shares."""
    shares = [kind.share for kind in KINDS]
    # From a generator of its own, so that a new kind changes no run of the others.
    kind = Random(f"{seed} kind").choices(KINDS, shares)[0]
    # Also of its own: all others stay as they were before there were channels.
    has_channels = kind is ordinary.KIND and Random(f"{seed} stage").random() < CHANNELS
    return channels.KIND if has_channels else kind


def kind_named(name: str) -> Kind:
    """The kind of this name; raises `KeyError` if there is none."""
    return {kind.name: kind for kind in KINDS}[name]
