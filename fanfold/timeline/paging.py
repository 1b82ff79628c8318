"""Pages of a range of keys, in both directions: which entries they show, and where they go on.

A page is full unless the range ends or a bound is reached, however much is left out. A page upwards
also finds late entries: below the position of its cursor, but above its low mark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import gt
from typing import Any, Generic

from fanfold import cursor, invariants, times
from fanfold.cursor import MAX_SEEN, Cursor
from fanfold.errors import BadInput
from fanfold.ids import is_sort_key
from fanfold.timeline import late
from fanfold.timeline.page_reads import E, Picking, Range, Show, Source, Visible, is_time

# Plain classes: each NamedTuple would be a fifth of a millisecond of a cold start.


class Asked:
    """A request for a page."""

    def __init__(
        self,
        limit: int,
        before: Cursor | None = None,
        after: Cursor | None = None,
        since: str = "",
        until: str | None = None,
    ) -> None:
        self.limit, self.before, self.after = limit, before, after
        self.since, self.until = since, until


class Page(Generic[E]):
    """Entries, newest first, and the content of each by its key.

    `next` is the cursor for `before`, None at the end; `previous` is the cursor for `after`.
    `has_more`: there is more above, on a page upwards. `is_partial`: a bound was reached before
    the page was full.
    """

    def __init__(
        self,
        entries: Sequence[E],
        contents: Mapping[str, Mapping[str, Any]],
        *,
        next: Cursor | None,
        previous: Cursor,
        has_more: bool = False,
        is_partial: bool = False,
    ) -> None:
        self.entries, self.contents = entries, contents
        self.next, self.previous = next, previous
        self.has_more, self.is_partial = has_more, is_partial

    def answer(self, lines: list[dict[str, Any]]) -> dict[str, Any]:
        """The reader's answer, with a line for each entry."""
        answer: dict[str, Any] = {
            "entries": lines,
            "next": cursor.encode(self.next) if self.next else None,
            "previous": cursor.encode(self.previous),
        }
        if self.has_more:
            answer["more"] = True
        if self.is_partial:
            answer["partial"] = True
        return answer


def asked(query: Mapping[str, str], limit: int) -> Asked:
    """Read the query parameters of a page; raises `BadInput`."""
    if "before" in query and "after" in query:
        raise BadInput("Give 'before' for older entries or 'after' for newer ones, not both.")
    since, until = (
        times.from_date_or_time(query[name], field=name) if name in query else None
        for name in ("from", "to")
    )
    if since and until and since > until:
        raise BadInput("'from' must not be later than 'to'; exchange them.")
    before, after = (
        _cursor(query[name]) if name in query else None for name in ("before", "after")
    )
    return Asked(limit, before, after, since or "", until)


def _cursor(text: str) -> Cursor:
    return cursor.decode(text, is_position=lambda each: is_sort_key(each) or times.is_text(each))


def page(
    source: Source[E],
    show: Show[E],
    asked: Asked,
    *,
    floor: str,
    now: str,
    visible: Visible[E] = lambda entries: entries,
) -> Page[E]:
    """The requested page, of keys after `floor`, a time or a key; `now` is a time."""
    within = Range(max(floor, asked.since), asked.until)
    picking = Picking(show, asked.limit, visible)
    if asked.after is not None:
        found = _newer(source, picking, asked.after, within)
    else:
        # So that polling from an empty page misses nothing, though its range may begin after now.
        here = asked.before or Cursor.at(min(within.since, now))
        found = _older(source, picking, asked.before, within, here)
    _check(found, asked)
    return found


def _check(page: Page[E], asked: Asked) -> None:
    """Report what no page can be."""
    keys, above, below = [each.sort_key for each in page.entries], page.previous, page.next
    is_around = above.low <= above.position and len(above.seen) <= MAX_SEEN
    if keys:
        # A late entry of a page upwards may lie below its cursor for older ones.
        is_below = below is None or asked.after is not None or below.position <= keys[-1]
        is_around = is_around and is_below and keys[0] <= above.position
    invariants.check("page_in_order", all(map(gt, keys, keys[1:])))
    if not invariants.check("page_cursors", is_around):
        # A cursor that remembers nothing, rather than one that the next request may not use.
        page.previous = Cursor.at(max([above.position, *keys]))


def _older(
    source: Source[E], picking: Picking[E], asked: Cursor | None, within: Range, here: Cursor
) -> Page[E]:
    """The newest entries, or those before a cursor; `here` is the place of an empty page."""
    start: str | None = None
    if asked and (within.until is None or asked.position < within.until):
        if is_time(asked.position):
            within = within._replace(until=asked.position)
        else:
            start = asked.position
    end = start or within.until
    if end is not None and end <= within.since:
        return Page([], {}, next=None, previous=here)
    rest: Sequence[E] = ()
    has_more, size = True, picking.size(picking.limit + 1)
    while size:
        found, has_more = source.newest(within, before=start, limit=size)
        picking.queried(len(found))
        start = found[-1].sort_key if found else start
        rest = picking.pick(found, has_more=has_more)
        ends = rest or picking.is_full or not has_more
        size = 0 if ends else picking.refill()
    goes_on = bool(rest) or has_more
    keys = list(picking.looked_at)
    if not keys:
        return Page([], {}, next=here if goes_on else None, previous=here)
    return Page(
        picking.entries,
        picking.contents,
        next=Cursor.at(keys[-1]) if goes_on else None,
        previous=late.above(
            [*keys, *(each.sort_key for each in rest[:1])], within.since, is_end=not goes_on
        ),
        is_partial=goes_on and not picking.is_full,
    )


def _newer(source: Source[E], picking: Picking[E], asked: Cursor, within: Range) -> Page[E]:
    """Entries newer than a cursor, oldest first, and late ones below it."""
    here = asked if asked.position > within.since else Cursor.at(within.since)
    if within.until is not None and within.until <= here.position:
        return Page([], {}, next=Cursor.at(here.position), previous=asked)
    reading = Upwards(source, picking, here, within)
    match = reading.match()
    rest: Sequence[E] = ()
    size = picking.size(len(here.seen) + picking.limit + 1)
    while size:
        reading.read(size)
        match = reading.match()
        if match.missing and not reading.is_cut:
            reading.look_again(len(match.missing))
            match = reading.match()
        fresh = [reading.found[key] for key in match.fresh if key not in picking.looked_at]
        rest = picking.pick(fresh)
        ends = rest or picking.is_full or not reading.has_more
        size = 0 if ends else picking.refill()
    goes_on = bool(rest) or reading.has_more
    keys, start = reading.keys, reading.start
    bottom = min((key for key in picking.looked_at if key > here.position), default=here.position)
    is_bottom = start == within.since and not any(key < bottom for key in keys)
    if reading.is_sure:  # what is forgotten may lie below the range
        previous = late.moved(here._replace(low=start), keys, match, picking.looked_at, [])
    else:
        previous = late.moved(here, keys, match, picking.looked_at, match.missing)
    return Page(
        sorted(picking.entries, key=lambda each: each.sort_key, reverse=True),
        picking.contents,
        next=None if is_bottom else Cursor.at(bottom),
        previous=previous if picking.looked_at or here is asked else asked,
        has_more=goes_on,
        is_partial=goes_on and not picking.is_full,
    )


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
        return late.Match(self._here, self.keys)

    def read(self, size: int) -> None:
        """Read the next entries."""
        more, self.has_more = self._query(max(self.found, default=self.start), size)
        self._picking.queried(len(more))
        self.found |= {each.sort_key: each for each in more}

    def look_again(self, missing: int) -> None:
        """Look once more for what is missing: an eventual read may go back in time.

        Otherwise, the cursor would forget an entry, and a later page would show it again.
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
