"""Which parts of a stage an audit reads, and what its sample proves. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

from fanfold.follows.ring import END, POSITION_DIGITS, RING_SIZE

# Rows of a segment of a scan: about one read unit.
SEGMENT_ROWS = 20
# The most segments that DynamoDB takes.
MAX_SEGMENTS = 1_000_000
# The places at which one post's followers are sampled, at most. A post with a lost segment of 512
# is then found one time in eight, and one of 64 surely.
MOST_PLACES = 64
# How sure the bound on missing pairs is.
SURENESS = 0.95


def scan_segments(items: int) -> int:
    """Into how many segments to cut the scan of a table of about this many items."""
    return min(MAX_SEGMENTS, max(1, items // SEGMENT_ROWS))


def drawn(count: int, chance: Callable[[], float]) -> Iterator[int]:
    """The numbers below `count` in random order, each once; `chance` draws from [0, 1)."""
    moved: dict[int, int] = {}
    for left in range(count, 0, -1):
        pick = int(chance() * left)
        yield moved.get(pick, pick)
        moved[pick] = moved.pop(left - 1, left - 1)


class Arc(NamedTuple):
    """A part of the ring [low, high), and a random position in it."""

    low: str
    place: str
    high: str


def arcs(segments: int, chance: Callable[[], float], *, most: int = MOST_PLACES) -> list[Arc]:
    """The ring in equal arcs: as many as segments, at most `most`, at least one."""
    count = min(most, max(1, segments))
    cuts = [_position(arc / count) for arc in range(count)] + [END]
    return [
        Arc(low, _position((arc + chance()) / count), high)
        for arc, (low, high) in enumerate(pairwise(cuts))
    ]


def _position(share: float) -> str:
    return f"{min(RING_SIZE - 1, int(share * RING_SIZE)):0{POSITION_DIGITS}x}"


def units_of_post(followers: int) -> float:
    """Read units of an audit of a post: an entry, and 120 bytes of an edge, consistently."""
    return followers * (0.5 + 120 / 4096)


def units_of_sample(pairs: int, follows: float) -> float:
    """About the read units of a sample of readers with so many `follows` each."""
    # One half: an edge and an entry. The other half: a page of an outbox, a row of the ledger, an
    # entry, and of each reader a page of entries, a post, a row, and the marks.
    return pairs / 2 * (2 * 0.5 + 3 * 0.5 + 5 * 0.5 / max(1.0, follows))


def chance_to_find(bad: int, of: int, sampled: int) -> float:
    """The chance that a sample of `sampled` among `of` has one of the `bad`."""
    return 1 - math.comb(of - bad, sampled) / math.comb(of, sampled)


def most_missing(pairs: int) -> float:
    """The share of all pairs below which the missing ones are, if none of `pairs` is missing.

    At `SURENESS`; about 3 / `pairs`.
    """
    return 1.0 if pairs <= 0 else -math.expm1(math.log(1 - SURENESS) / pairs)
