"""Which parts of a stage an audit reads, and what its sample proves. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

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


def places(segments: int, chance: Callable[[], float], *, most: int = MOST_PLACES) -> list[str]:
    """One random position in each of equal arcs of the ring: an arc a segment, at most `most`."""
    arcs = min(most, max(1, segments))
    found = ((arc + chance()) / arcs * RING_SIZE for arc in range(arcs))
    return [f"{min(RING_SIZE - 1, int(place)):0{POSITION_DIGITS}x}" for place in found]


def arc_around(place: str, arcs: int) -> tuple[str, str]:
    """The bounds of the arc in which a position lies, if the ring is cut into equal `arcs`."""
    number = int(place, 16) * arcs // RING_SIZE
    low, high = (f"{each * RING_SIZE // arcs:0{POSITION_DIGITS}x}" for each in (number, number + 1))
    return low, END if number + 1 == arcs else high


def chance_to_find(bad: int, of: int, sampled: int, *, share: float = 1.0) -> float:
    """The chance that a sample of `sampled` among `of` finds one of the `bad`, each with `share`.

    For posts with a lost segment, `share` is that of the segments that were tried.
    """
    most = min(bad, sampled)
    none = sum(
        math.comb(bad, hit) * math.comb(of - bad, sampled - hit) * (1 - share) ** hit
        for hit in range(max(0, sampled + bad - of), most + 1)
    )
    return 1 - none / math.comb(of, sampled)


def most_missing(pairs: int) -> float:
    """The share of all pairs below which the missing ones are, if none of `pairs` is missing.

    At `SURENESS`; about 3 / `pairs`.
    """
    return 1.0 if pairs <= 0 else -math.expm1(math.log(1 - SURENESS) / pairs)


def pairs_for(share: float) -> int:
    """How many pairs find a loss of this share of all pairs, with `SURENESS`; 2,995 for 0.001."""
    return math.ceil(math.log(1 - SURENESS) / math.log1p(-share))
