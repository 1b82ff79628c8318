"""Pages of a range of keys, in both directions: which entries they show, and where they go on.

A page is full unless the range ends or a bound is met, whatever is left out of it. A page upwards
also finds what has come late: below the position of its cursor, but above its low mark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple

from fanfold import cursor, times
from fanfold.cursor import Cursor
from fanfold.errors import BadInput
from fanfold.ids import is_sort_key
from fanfold.timeline import late
from fanfold.timeline.picking import REFILL, E, Picking, Show


class Range(NamedTuple):
    """The keys from a time on, and before another one; both are of `fanfold.times`.

    No key equals a time, since a key is a time with an id behind it.
    """

    since: str
    until: str | None = None


# Plain classes: each NamedTuple would be a fifth of a millisecond of a cold start.


class Source(Generic[E]):
    """Where entries come from: two functions, each of which also says whether more may follow.

    `newest(within, *, before, limit)` answers the newest entries of a range, newest first, older
    than the key `before` unless it is None. `oldest(within, *, after, limit, is_consistent)`
    answers the oldest ones, oldest first, newer than `after`. These keys lie within the range. A
    source that cannot be read consistently reads as it can.
    """

    def __init__(
        self,
        newest: Callable[..., tuple[Sequence[E], bool]],
        oldest: Callable[..., tuple[Sequence[E], bool]],
    ) -> None:
        self.newest, self.oldest = newest, oldest


class Asked:
    """A page as it is asked for."""

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
    """Entries, newest first, with what is shown beside each by its key.

    `next` is a place for `before`, None at the end, and `previous` one for `after`. `has_more` says
    that there is more above, where `after` was asked for; `is_partial`, that a bound was met before
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
        """What the reader is answered, with a line for each entry."""
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
    since, until = (_time(query[name], name) if name in query else None for name in ("from", "to"))
    if since and until and since > until:
        raise BadInput("'from' must not be later than 'to'; exchange them.")
    before, after = (
        _cursor(query[name]) if name in query else None for name in ("before", "after")
    )
    return Asked(limit, before, after, since or "", until)


def _time(text: str, name: str) -> str:
    """An instant, or the beginning of a date in UTC."""
    is_date = len(text) == len("2026-11-20")
    try:
        return times.to_text(times.to_ms(f"{text}T00:00:00Z" if is_date else text))
    except BadInput:
        raise BadInput(
            f"'{name}' is neither a time of RFC 3339 nor a date; write it like 2026-11-20, "
            "2026-11-20T18:00:00.123Z or 2026-11-20T20:00:00%2B02:00: "
            "in an address, a + is sent as %2B."
        ) from None


def _cursor(text: str) -> Cursor:
    return cursor.decode(text, is_position=lambda each: is_sort_key(each) or times.is_text(each))


def page(source: Source[E], show: Show[E], asked: Asked, *, floor: str) -> Page[E]:
    """The page that is asked for, of keys from the time `floor` on."""
    within = Range(max(floor, asked.since), asked.until)
    picking = Picking(show, asked.limit)
    if asked.after is not None:
        return _newer(source, picking, asked.after, within)
    return _older(source, picking, asked.before, within)


def _older(source: Source[E], picking: Picking[E], asked: Cursor | None, within: Range) -> Page[E]:
    """The newest entries, or those before a cursor."""
    here = asked or Cursor.at(within.since)
    start: str | None = None
    if asked and (within.until is None or asked.position < within.until):
        if _is_time(asked.position):
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
        rest = picking.pick(found)
        ends = rest or picking.is_full or not has_more
        size = 0 if ends else picking.size(REFILL)
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
    """What is newer than a cursor, oldest first, and what has come late below it."""
    here = asked if asked.position > within.since else Cursor.at(within.since)
    if within.until is not None and within.until <= here.position:
        return Page([], {}, next=Cursor.at(here.position), previous=asked)
    start = max(here.low, within.since)
    keys: list[str] = []
    found: dict[str, E] = {}  # by key
    rest: Sequence[E] = ()
    is_second = has_more = is_sure = False
    size = picking.size(len(here.seen) + picking.limit + 1)
    while size:
        more, has_more = _ascending(source, within, max(found, default=start), size)
        picking.queried(len(more))
        found |= {each.sort_key: each for each in more}
        has_passed = not has_more or max(found, default=start) >= here.position
        gone = late.missing(here, sorted(found))
        below = sum(key <= here.position for key in found)
        # Consistent reads cost twice as much.
        size = picking.size(2 * (below + len(gone) + 1)) // 2
        if has_passed and gone and not is_second and size:
            # An eventual read may go back in time, and what is forgotten is shown again.
            is_second = True
            again, is_cut = _ascending(source, within, start, size, is_consistent=True)
            picking.queried(2 * len(again))
            is_sure = not is_cut or again[-1].sort_key >= here.position
            found |= {each.sort_key: each for each in again if each.sort_key <= here.position}
        keys = sorted(found)
        fresh = late.fresh(here, keys)
        rest = picking.pick([found[key] for key in fresh if key not in picking.looked_at])
        ends = rest or picking.is_full or not has_more
        size = 0 if ends else picking.size(REFILL)
    goes_on = bool(rest) or has_more
    bottom = min((key for key in picking.looked_at if key > here.position), default=here.position)
    is_bottom = start == within.since and not any(key < bottom for key in keys)
    if is_sure:  # what is forgotten may lie below the range
        remembered, still_missing = here._replace(low=start), []
    else:
        remembered, still_missing = here, late.missing(here, keys)
    previous = late.moved(remembered, keys, picking.looked_at, still_missing)
    return Page(
        sorted(picking.entries, key=lambda each: each.sort_key, reverse=True),
        picking.contents,
        next=None if is_bottom else Cursor.at(bottom),
        previous=previous if picking.looked_at or here is asked else asked,
        has_more=goes_on,
        is_partial=goes_on and not picking.is_full,
    )


def _ascending(
    source: Source[E], within: Range, start: str, size: int, *, is_consistent: bool = False
) -> tuple[Sequence[E], bool]:
    if _is_time(start):
        within, after = within._replace(since=start), None
    else:
        after = start
    return source.oldest(within, after=after, limit=size, is_consistent=is_consistent)


def _is_time(position: str) -> bool:
    """Whether a position is not a key but the beginning of a range."""
    return "#" not in position
