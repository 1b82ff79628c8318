"""QUERY: the union of a reader's own timeline and of the channels of those whom they follow.

One range of the reader's own, and one of each of at most 64 channels. What channels hold is read
from windows that all readers share, and beyond them by one query for each that is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fanfold.channels.head import MOST, Channel, Head, partition_of
from fanfold.channels.windows import WINDOW, Window
from fanfold.timeline import memo, union
from fanfold.timeline.entries import Entry, found
from fanfold.timeline.source import Range
from fanfold.timeline.union import Part

if TYPE_CHECKING:
    from fanfold.timeline.channel_reading import ChannelReading
    from fanfold.timeline.sight import Sight

# Entries, and whether more may follow.
Found: TypeAlias = tuple[Sequence[Entry], bool]

# Of channels, for one page: in the worst case a window of each, and what is beyond it once. So the
# first query of a page always finds all that is there, also where a rebuilt head has more channels
# than `MOST`. A second look may read each once more: else it would not be known what is missing,
# and of several late posts one would be shown again.
MAX_QUERIES = 2 * MOST


class Union:
    """While one page is read. The own timeline's part of each union is read by the caller."""

    def __init__(self, reading: ChannelReading, sight: Sight) -> None:
        self._reading, self._sight = reading, sight
        self._channels: Sequence[Channel] | None = None  # that the reader follows
        self._left = MAX_QUERIES

    def newest(
        self, own: Found, within: Range, *, before: str | None, limit: int
    ) -> tuple[Sequence[Entry], bool]:
        # A window is no help far below.
        windows = self._windows(may_read=before is None and within.until is None)

        def request(channel: Channel, key: str | None) -> dict[str, Any]:
            return self._reading.timelines.request(
                partition_of(channel.publisher_id),
                within._replace(since=key or within.since),
                start=before,
                limit=limit,
                ScanIndexForward=False,
                ConsistentRead=True,
            )

        parts = [
            each.newest(within, before=before, limit=limit) if each else None for each in windows
        ]
        return self._merged(own, parts, request, limit, is_up=False)

    def oldest(
        self, own: Found, within: Range, *, after: str | None, limit: int, is_consistent: bool
    ) -> tuple[Sequence[Entry], bool]:
        if is_consistent:
            self._channels = self._followed(self._sight.head)
            self._left = max(self._left, len(self._channels))
        windows = self._windows(may_read=not is_consistent)

        def request(channel: Channel, key: str | None) -> dict[str, Any]:
            return self._reading.timelines.request(
                partition_of(channel.publisher_id),
                within._replace(until=key or within.until),
                start=after,
                limit=limit,
                ScanIndexForward=True,
                ConsistentRead=True,
            )

        parts = [
            each.oldest(within, after=after, limit=limit) if each and not is_consistent else None
            for each in windows
        ]
        return self._merged(own, parts, request, limit, is_up=True)

    def _merged(
        self,
        own: Found,
        known: Sequence[Part[Entry] | None],
        request: Callable[[Channel, str | None], dict[str, Any]],
        limit: int,
        *,
        is_up: bool,
    ) -> tuple[Sequence[Entry], bool]:
        """The union, for which channels are queried that are not known far enough."""
        channels = self._channels or ()
        nothing: Part[Entry] = union.unknown(is_up=is_up)
        parts = [
            union.part(*own, is_up=is_up),
            *(nothing if each is None else each for each in known),
        ]
        places, key = union.short(parts, limit, is_up=is_up)
        asked = [place for place in places if place][: self._left]
        answers = self._query([request(channels[place - 1], key) for place in asked])
        for place, (entries, has_more) in zip(asked, answers, strict=True):
            self._reading.windows.compare(channels[place - 1], entries)
            parts[place] = union.part(entries, has_more, is_up=is_up, read_to=key)
        return union.merged(parts, limit, is_up=is_up)

    def _windows(self, *, may_read: bool) -> list[Window | None]:
        """The window of each channel that the reader follows, as far as there is one."""
        if self._channels is None:
            self._channels = self._followed(self._sight.head)
            self._left = max(self._left, 2 * len(self._channels))
        cache, since = self._reading.windows, self._sight.since
        windows = [cache.of(each) for each in self._channels]
        if may_read:
            lacking = [place for place, each in enumerate(windows) if each is None]
            lacking = lacking[: self._left]
            requests = [
                self._reading.timelines.request(
                    partition_of(self._channels[place].publisher_id),
                    Range(since),
                    start=None,
                    limit=WINDOW,
                    ScanIndexForward=False,
                    ConsistentRead=True,
                )
                for place in lacking
            ]
            for place, (newest, has_more) in zip(lacking, self._query(requests), strict=True):
                windows[place] = cache.keep(self._channels[place], newest, has_more, since=since)
        return windows

    def _query(self, requests: Sequence[dict[str, Any]]) -> list[tuple[list[Entry], bool]]:
        if not requests:
            return []
        self._left -= len(requests)
        answers = self._sight.together(*(("Query", each) for each in requests))
        return [found(each) for each in answers]

    def _followed(self, head: Head) -> list[Channel]:
        """The channels in the head of publishers that the reader follows."""
        sight = self._sight
        assert sight.reader is not None
        if not sight.has_row:  # who has none follows nobody
            return []
        followed, newer = memo.told(sight.reader, head)
        if not newer:
            return followed
        more = sight.followed_among({each.publisher_id for each in newer})
        memo.note(sight.readers, sight.user_id, sight.reader, head, more)
        return [*followed, *(each for each in newer if each.publisher_id in more)]
