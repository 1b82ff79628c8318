"""What a cursor remembers of the entries below it, and which ones have come there since.

Lateness has no bound: queues, dead letters and times of the sender's choice put entries at any
place. So a cursor holds a hash of each of the last entries that were looked at; what lies above its
low mark without one is late.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from fanfold.cursor import MAX_SEEN, Cursor, hashed


def above(keys: Sequence[str], since: str, *, is_end: bool) -> Cursor:
    """The cursor above keys that were looked at, newest first, perhaps to the end at `since`."""
    if is_end and len(keys) <= MAX_SEEN:
        depth, low = len(keys), since
    else:
        depth = min(MAX_SEEN, len(keys) - 1)
        low = keys[depth]
    return Cursor(keys[0], low, tuple(map(hashed, reversed(keys[:depth]))))


def missing(cursor: Cursor, keys: Sequence[str]) -> list[bytes]:
    """What the cursor remembers and is not among keys that lie above its low mark."""
    return _matched(cursor, keys)[1]


def fresh(cursor: Cursor, keys: Sequence[str]) -> list[str]:
    """The new keys and the late ones, of those above the low mark, oldest first."""
    known, _ = _matched(cursor, keys)
    return [key for key in keys if key not in known]


def _matched(cursor: Cursor, keys: Sequence[str]) -> tuple[set[str], list[bytes]]:
    """The keys that the cursor remembers, and the hashes of which there is no key.

    If a hash occurs more often than it is remembered, it does not say which of its keys is late:
    all of them count. One is then shown twice, rather than one never. A late key whose hash is that
    of one further up, perhaps beyond the keys that were found, is told by its place.
    """
    hashes = [(key, hashed(key)) for key in keys if key <= cursor.position]
    ahead = Counter(each for _, each in hashes)
    unclear = ahead - Counter(cursor.seen)
    known: set[str] = set()
    left: list[bytes] = []
    place = 0  # in what is remembered, oldest first
    for key, each in hashes:
        ahead[each] -= 1
        if each in unclear or each not in cursor.seen[place:]:
            continue
        found = cursor.seen.index(each, place)
        skipped = cursor.seen[place:found]
        # As many keys of its hash as are remembered from here on do not stand for what is skipped.
        rest = cursor.seen[found:]
        if any(ahead[other] > rest.count(other) and other not in unclear for other in skipped):
            continue
        known.add(key)
        left += skipped
        place = found + 1
    left += cursor.seen[place:]
    return known, [each for each in left if each not in unclear]


def moved(
    cursor: Cursor, keys: Sequence[str], looked_at: Collection[str], still_missing: Sequence[bytes]
) -> Cursor:
    """The cursor after a page upwards.

    `keys` are all that were found above the low mark, oldest first, and `looked_at` the fresh ones
    of them that the page has dealt with. What is `still_missing` may lie beyond them.
    """
    position = max(cursor.position, *looked_at, "")
    left = [key for key in fresh(cursor, keys) if key not in looked_at]
    known = sorted({key for key in keys if key <= position}.difference(left))
    # The low mark rises no further than below what is left: it is found by the next page.
    below = [key for key in known if not left or key < left[0]]
    rise = max(len(known) + len(still_missing) - MAX_SEEN, 0)
    late = {hashed(key) for key in left if key <= position}
    if late.intersection(map(hashed, below)):
        rise = len(below)  # else the next page would show the same one of the two again
    rise = min(rise, len(below))
    low = below[rise - 1] if rise else cursor.low
    seen = (*map(hashed, known[rise:]), *still_missing)
    return Cursor(position, low, seen[-MAX_SEEN:])
