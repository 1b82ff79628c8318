"""Where a page's entries come from, which ones it takes, and how much it may read for them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from fanfold.aws.items import MAX_KEYS

# Bounds of one page, however much of the timeline is left out: else 5,000 retracted posts would
# cost each follower 5,000 reads a page.
MAX_QUERIES = 4
MAX_LOOKED_AT = 400
MAX_POSTS = 200
# The most entries of each query after the first. A page of 50 takes nine read units at most.
REFILL = 100


class Keyed(Protocol):
    """What has a key: an entry."""

    @property
    def sort_key(self) -> str: ...


E = TypeVar("E", bound=Keyed)


class Range(NamedTuple):
    """The keys from a time on, and before another one; both are of `fanfold.times`.

    No key equals a time, since a key is a time with an id behind it.
    """

    since: str
    until: str | None = None


class Source(Generic[E]):
    """Where entries come from: two functions, each of which also says whether more may follow.

    `newest(within, *, before, limit)` answers the newest entries of a range, newest first, older
    than the key `before` unless it is None. `oldest(within, *, after, limit, is_consistent)`
    answers the oldest ones, oldest first, newer than `after`. These keys lie within the range. A
    source that cannot be read consistently reads as it can.

    `hidden` is how many more entries a second look may find: in a source of several parts, the
    first look may have read one part in an older state than another.
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


class Shown(NamedTuple):
    """What is shown beside entries."""

    contents: Mapping[str, Mapping[str, Any]]  # by sort key; entries without one are left out
    looked_at: int  # entries, from the first: the others would take too many posts
    read: int  # posts, at most the given number


# Takes at most MAX_KEYS entries, and the number of posts that may be read for them.
Show = Callable[[Sequence[E], int], Shown]
# Filters entries to those that may be shown, as the same objects in the same order.
Visible = Callable[[Sequence[E]], Sequence[E]]


class Picking(Generic[E]):
    """Fills one page, within its bounds."""

    def __init__(self, show: Show[E], limit: int, visible: Visible[E]) -> None:
        self.limit = limit
        self.entries: list[E] = []
        self.contents: dict[str, Mapping[str, Any]] = {}
        self.looked_at: dict[str, None] = {}  # keys in order, also of entries left out
        self._show, self._visible = show, visible
        self._hidden = 0  # entries that are not visible, among those looked at
        # What the first query has found, and what of that is visible, until the second is made.
        self._waiting: tuple[Sequence[E], Sequence[E]] = (), ()
        self._queries = 0
        self._found = 0  # entries that queries have answered
        self._posts = MAX_POSTS  # that may still be read

    @property
    def is_full(self) -> bool:
        return len(self.entries) == self.limit

    def size(self, wanted: int) -> int:
        """How many of the wanted entries the next query may answer; 0 if it may not be made."""
        return min(wanted, MAX_LOOKED_AT - self._found) if self._queries < MAX_QUERIES else 0

    def refill(self) -> int:
        """How many entries the query after the first may answer; 0 if it may not be made.

        The same share is probably left out again; it asks once for twice what that takes.
        """
        found, visible = self._waiting
        looked_at, shown = len(self.looked_at) + len(found), len(self.entries) + len(visible)
        wanted = REFILL
        if shown and self._queries == 1:
            missing = self.limit - shown
            wanted = min(REFILL, 2 * -(-missing * looked_at // shown) + 1)
        return self.size(wanted)

    def queried(self, entries: int) -> None:
        """A query was answered with this many entries."""
        self._queries += 1
        self._found += entries

    def pick(self, entries: Sequence[E], *, has_more: bool = False) -> Sequence[E]:
        """Take entries until the page is full; returns those that were not looked at.

        Visible entries of the first query wait for the second one if they do not fill the page and
        the query `has_more`: posts are then read once for both.
        """
        visible = self._visible(entries)
        is_first = has_more and self._queries == 1 and self.size(1)
        if is_first and len(visible) < min(self.limit, len(entries)):
            self._waiting = entries, visible
            return ()
        if self._waiting[0]:
            entries = [*self._waiting[0], *entries]
            visible, self._waiting = [*self._waiting[1], *visible], ((), ())
        while entries and not self.is_full:
            # As many as are wanted; where most posts are left out, twice as many each time.
            gone = len(self.looked_at) - len(self.entries) - self._hidden
            some = visible[: min(max(self.limit - len(self.entries), gone), MAX_KEYS)]
            shown = self._show(some, self._posts)
            self._posts -= shown.read
            taken = looked_at = 0
            while looked_at < len(entries) and not self.is_full:
                is_visible = taken < len(visible) and entries[looked_at] is visible[taken]
                if is_visible and taken == shown.looked_at:
                    break
                self._take(entries[looked_at], shown.contents)
                looked_at += 1
                taken += is_visible
                self._hidden += not is_visible
            entries, visible = entries[looked_at:], visible[taken:]
            if shown.looked_at < len(some):
                break
        return entries

    def _take(self, entry: E, contents: Mapping[str, Mapping[str, Any]]) -> None:
        key = entry.sort_key
        self.looked_at[key] = None
        if key in contents:
            self.entries.append(entry)
            self.contents[key] = contents[key]
