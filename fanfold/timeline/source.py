"""Where the entries of a page come from: a range of keys, read from its newest or oldest end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple

from fanfold.cursor import Cursor
from fanfold.timeline import late
from fanfold.timeline.picking import E, Picking


class Range(NamedTuple):
    """The keys from a time on, and before another one; both are of `fanfold.times`.

    No key equals a time, since a key is a time with an id behind it.
    """

    since: str
    until: str | None = None


# Plain classes, as in `paging`.


class Source(Generic[E]):
    """Where entries come from: two functions, each of which also says whether more may follow.

    `newest(within, *, before, limit)` answers the newest entries of a range, newest first, older
    than the key `before` unless it is None. `oldest(within, *, after, limit, is_consistent)`
    answers the oldest ones, oldest first, newer than `after`. These keys lie within the range. A
    source that cannot be read consistently reads as it can.

    A second look may find so many entries more than the first one, `hidden` from that: in a source
    of several parts, one part may be read as it was before another.
    """

    def __init__(
        self,
        newest: Callable[..., tuple[Sequence[E], bool]],
        oldest: Callable[..., tuple[Sequence[E], bool]],
        *,
        hidden: int = 0,
    ) -> None:
        self.newest, self.oldest, self.hidden = newest, oldest, hidden


def is_time(position: str) -> bool:
    """Whether a position is not a key but the beginning of a range."""
    return "#" not in position


class Upwards(Generic[E]):
    """Reads what lies above a cursor's low mark, or the beginning of the range."""

    def __init__(self, source: Source[E], picking: Picking[E], here: Cursor, within: Range) -> None:
        self._source, self._picking, self._here, self._within = source, picking, here, within
        self.start = max(here.low, within.since)
        self.found: dict[str, E] = {}  # by key
        self.has_more = True
        self.is_sure = False  # that what is missing is gone
        self._looked_twice = False

    @property
    def keys(self) -> list[str]:
        return sorted(self.found)

    @property
    def is_cut(self) -> bool:
        """Whether keys up to the cursor's position may be unread."""
        return self.has_more and max(self.found, default=self.start) < self._here.position

    def match(self) -> late.Match:
        return late.Match(self._here, self.keys, self.start, is_cut=self.is_cut)

    def read(self, size: int) -> None:
        """Read the next entries."""
        more, self.has_more = self._query(max(self.found, default=self.start), size)
        self._picking.queried(len(more))
        self.found |= {each.sort_key: each for each in more}

    def look_again(self, missing: int) -> None:
        """Look once for what is missing: an eventual read may go back in time.

        What it has not shown would be forgotten, and shown again.
        """
        below = sum(key <= self._here.position for key in self.found)
        # Consistent reads cost twice as much.
        size = self._picking.size(2 * (below + missing + self._source.hidden + 1)) // 2
        if self._looked_twice or not size:
            return
        self._looked_twice = True
        again, is_cut = self._query(self.start, size, is_consistent=True)
        self._picking.queried(2 * len(again))
        last = max((each.sort_key for each in again), default=self.start)
        self.is_sure = not is_cut or last >= self._here.position
        self.found |= {
            each.sort_key: each for each in again if each.sort_key <= self._here.position
        }

    def _query(
        self, start: str, size: int, *, is_consistent: bool = False
    ) -> tuple[Sequence[E], bool]:
        within, after = self._within, None
        if is_time(start):
            within = within._replace(since=start)
        else:
            after = start
        return self._source.oldest(within, after=after, limit=size, is_consistent=is_consistent)
