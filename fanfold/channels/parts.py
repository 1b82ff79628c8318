"""The union of several ranges of keys that are read side by side: one per key, in order. Pure.

A union is exact as far as each of its parts is known. A part is known far enough if it has as many
entries as are wanted, or all that there are, or reaches as far as the last wanted entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from operator import attrgetter
from typing import Generic, NamedTuple

from fanfold.timeline.page_reads import E

# Above all keys.
_ABOVE = "~"


class Part(NamedTuple, Generic[E]):
    """What is known of one range: its entries up to the key `end`, all of them if that is None.

    They are in the order in which the union is read, from the newest down or from the oldest up.
    """

    entries: Sequence[E] = ()
    end: str | None = None


def unknown(*, is_up: bool) -> Part[E]:
    """The part of a range that was not read."""
    return Part((), "" if is_up else _ABOVE)


def part(
    entries: Sequence[E], has_more: bool, *, is_up: bool, read_to: str | None = None
) -> Part[E]:
    """The part of a range that was read up to a key, or to its end: what a query found there."""
    if not has_more:
        return Part(entries, read_to)
    return Part(entries, entries[-1].sort_key) if entries else unknown(is_up=is_up)


def start(known: Part[E]) -> str | None:
    """The key behind which to go on with a range; None if nothing is known of it."""
    return known.end if known.end not in ("", _ABOVE) else None


def beyond(known: Part[E], more: Part[E]) -> Part[E]:
    """The part of a range that was read on from where it was known."""
    if start(more) is None and more.end is not None:
        return known
    return Part((*known.entries, *more.entries), more.end)


def below(known: Part[E], before: str) -> Part[E]:
    """What is known of a range, read from the newest down, below a key."""
    if known.end is not None and known.end >= before:
        return unknown(is_up=False)
    return Part([each for each in known.entries if each.sort_key < before], known.end)


def short(parts: Sequence[Part[E]], limit: int, *, is_up: bool) -> tuple[list[int], str | None]:
    """The places of parts that are not known far enough for `limit` entries, least known first.

    And the key up to which they have to be known; None if that is the end of the range.
    """
    first = _first(parts, limit, is_up=is_up)
    key = first[-1].sort_key if len(first) == limit else None
    ends = {
        place: each.end
        for place, each in enumerate(parts)
        if each.end is not None and (key is None or (each.end < key if is_up else each.end > key))
    }
    return sorted(ends, key=ends.__getitem__, reverse=not is_up), key


def merged(parts: Sequence[Part[E]], limit: int, *, is_up: bool) -> tuple[list[E], bool]:
    """The first entries of the union, `limit` of them at most, and whether more may follow.

    Fewer, as far as all parts are known, if some are not known far enough.
    """
    first = _first(parts, limit + 1, is_up=is_up)
    ends = [each.end for each in parts if each.end is not None]
    if ends:
        end = min(ends) if is_up else max(ends)
        first = [
            each for each in first if (each.sort_key <= end if is_up else each.sort_key >= end)
        ]
    return first[:limit], bool(ends) or len(first) > limit


def _first(parts: Sequence[Part[E]], count: int, *, is_up: bool) -> list[E]:
    """The first entries that are known, one per key."""
    found: list[E] = []
    for each in merge(
        *(part.entries for part in parts), key=attrgetter("sort_key"), reverse=not is_up
    ):
        if found and found[-1].sort_key == each.sort_key:
            continue
        if len(found) == count:
            break
        found.append(each)
    return found
