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


class Match:
    """Which keys a cursor remembers, of those above its low mark, oldest first.

    `fresh` are the others: new and late ones. `missing` are the hashes that belong to no key.

    If a hash occurs more often than it is remembered, it does not say which of its keys is late:
    all of them count as fresh. One is shown twice then, rather than one never. But a late key with
    the hash of a remembered one that is not among these counts as known: one in 335,000 at most.
    """

    def __init__(self, cursor: Cursor, keys: Sequence[str]) -> None:
        remembered = Counter(cursor.seen)
        found = Counter(hashed(key) for key in keys if key <= cursor.position)
        too_often = found - remembered
        self.fresh = [key for key in keys if key > cursor.position or hashed(key) in too_often]
        self.missing = list((remembered - found).elements())


def moved(
    cursor: Cursor,
    keys: Sequence[str],
    match: Match,
    looked_at: Collection[str],
    still_missing: Sequence[bytes],
) -> Cursor:
    """The cursor after a page upwards that has `looked_at` some of the fresh keys, or all.

    What is `still_missing` of its memory is carried on.
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
    seen = [*map(hashed, known[forgotten:]), *still_missing]
    return Cursor(position, low, tuple(seen[-MAX_SEEN:]))
