"""What a cursor remembers of the entries below it, and which ones have come there since.

Lateness has no bound: queues, dead letters and times of the sender's choice put entries at any
place. So a cursor holds a hash of each of the last entries that were looked at; what lies above its
low mark without one is late.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from fanfold.cursor import MAX_SEEN, Cursor, hashed

# Above all keys.
_END = "~"


def above(keys: Sequence[str], since: str, *, is_end: bool) -> Cursor:
    """The cursor above keys that were looked at, newest first, perhaps to the end at `since`."""
    if is_end and len(keys) <= MAX_SEEN:
        depth, low = len(keys), since
    else:
        depth = min(MAX_SEEN, len(keys) - 1)
        low = keys[depth]
    return Cursor(keys[0], low, tuple(map(hashed, reversed(keys[:depth]))))


class Match:
    """Which keys a cursor remembers, of those above its low mark or `start`, oldest first.

    `fresh` are the others: new and late ones. `missing` are the hashes that belong to no key, each
    with the known key that it lies below; where the keys do not reach the position (`is_cut`), they
    may belong to keys beyond.

    Keys and memory are both in order, so they are matched in order, and as many as can be. That
    holds although entries go, and although late ones have the hashes of others further up or down.
    If a hash occurs more often than it is remembered, it does not say which of its keys is late:
    all of them count as fresh. One is shown twice then, rather than one never.
    """

    def __init__(self, cursor: Cursor, keys: Sequence[str], start: str, *, is_cut: bool) -> None:
        below = [(key, hashed(key)) for key in keys if key <= cursor.position]
        unclear = Counter(each for _, each in below) - Counter(cursor.seen)
        memory = [each for each in cursor.seen if each not in unclear]
        pairs = _in_order(memory, below)
        if is_cut:
            _drop_leaps(pairs, may_begin_later=start > cursor.low)
        known = {key for _, key in pairs}
        self.fresh = [key for key in keys if key not in known]
        self.missing: list[tuple[str, bytes]] = []
        found, below_key = dict(pairs), _END
        for place in reversed(range(len(memory))):
            if place in found:
                below_key = found[place]
            else:
                self.missing.insert(0, (below_key, memory[place]))


def _in_order(
    memory: Sequence[bytes], hashes: Sequence[tuple[str, bytes]]
) -> list[tuple[int, str]]:
    """The most places in the memory, each with a key of that hash, that are both in order.

    It is the longest increasing subsequence, sought from the newest key down: of two that are as
    long, the one of newer places is found, since the oldest entries expire first.
    """
    places: dict[bytes, list[int]] = {}
    for place, each in enumerate(memory):
        places.setdefault(each, []).append(place)
    # For each length, the chain that leaves most places below it: its lowest place, negative so
    # that these ascend, and the chain itself, as a place, a key and the rest.
    ends: list[int] = []
    chains: list[Any] = []
    for key, each in reversed(hashes):
        for place in places.get(each, ()):
            length = bisect_left(ends, -place)
            rest = chains[length - 1] if length else None
            ends[length : length + 1] = [-place]
            chains[length : length + 1] = [(place, key, rest)]
    pairs = []
    chain = chains[-1] if chains else None
    while chain:
        place, key, chain = chain
        pairs.append((place, key))
    return pairs


def _drop_leaps(pairs: list[tuple[int, str]], *, may_begin_later: bool) -> None:
    """Drop matches that skip as many places as they are, or more.

    What they skip is rather to come than gone, and they are late keys with the hashes of others.
    Only what lies below the range is gone: the first match may skip any number for it.
    """
    for at in reversed(range(1 if may_begin_later else 0, len(pairs))):
        expected = pairs[at - 1][0] + 1 if at else 0
        if pairs[at][0] - expected >= len(pairs) - at:
            del pairs[at:]


def moved(
    cursor: Cursor,
    keys: Sequence[str],
    match: Match,
    looked_at: Collection[str],
    still_missing: Sequence[tuple[str, bytes]],
) -> Cursor:
    """The cursor after a page upwards that has `looked_at` some of the fresh keys, or all.

    What is `still_missing` of its memory is carried on, in its place.
    """
    position = max(cursor.position, *looked_at, "")
    left = [key for key in match.fresh if key not in looked_at]
    known = sorted({key for key in keys if key <= position}.difference(left))
    # The low mark stays below what is left, so that the next page finds it.
    below_left = [key for key in known if not left or key < left[0]]
    late = {hashed(key) for key in left if key <= position}
    if late.intersection(map(hashed, below_left)):
        # The next page could not tell the two apart, and would show the same one again.
        forgotten = len(below_left)
    else:
        too_many = len(known) + len(still_missing) - MAX_SEEN
        forgotten = min(max(too_many, 0), len(below_left))
    low = below_left[forgotten - 1] if forgotten else cursor.low
    places = [(key, 1, hashed(key)) for key in known[forgotten:]]
    places += [(key, 0, each) for key, each in still_missing]
    places.sort(key=lambda place: place[:2])
    return Cursor(position, low, tuple(each for _, _, each in places[-MAX_SEEN:]))
