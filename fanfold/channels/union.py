"""The union of a reader's own timeline and the channels of those whom they follow.

It has one range of the own timeline, and one of each of at most 64 channels. Channels are read from
windows that all readers share, and beyond these with one query each, as needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fanfold.channels import following, parts
from fanfold.channels.head import MOST, Channel, Head, partition_of
from fanfold.channels.parts import Part
from fanfold.channels.windows import WINDOW, Window
from fanfold.timeline.entries import Entry, checked, found
from fanfold.timeline.page_reads import Range

if TYPE_CHECKING:
    from fanfold.channels.reading import ChannelPage

# Entries, and whether more may follow.
Found: TypeAlias = tuple[Sequence[Entry], bool]

# The most queries of channels for one page: at worst, a window of each, and once what lies beyond.
# So the first query of a page always finds everything, even if a rebuilt head has more channels
# than `MOST`. A second look may read each once more; otherwise, what is missing would stay unknown,
# and one of several late posts would be shown again.
MAX_QUERIES = 2 * MOST
# Entries of a channel's first query: one read unit, with ids of 36 characters.
FEW = 20


class ChannelUnion:
    """The union during one page. The caller reads the part of the own timeline."""

    def __init__(self, page: ChannelPage) -> None:
        self._page, self._reading, self._filter = page, page.reading, page.filter
        self._channels: Sequence[Channel] | None = None  # that the reader follows
        self._left = MAX_QUERIES
        # What is known of the channels below what was found in a range.
        self._below: tuple[Range, Sequence[Part[Entry]]] | None = None

    def newest(self, own: Found, within: Range, *, before: str | None, limit: int) -> Found:
        # A window is no help far below.
        windows = self._windows(may_read=before is None and within.until is None)
        if self._below and self._below[0] == within and before is not None:
            # What an earlier query of this page has found, and not taken.
            known = [parts.below(each, before) for each in self._below[1]]
        else:
            nothing: Part[Entry] = parts.unknown(is_up=False)
            known = [each.newest(within, before=before) if each else nothing for each in windows]
        known = self._known(own, known, within, before, limit, is_up=False)
        self._below = within, known[1:]
        return parts.merged(known, limit, is_up=False)

    def oldest(
        self, own: Found, within: Range, *, after: str | None, limit: int, is_consistent: bool
    ) -> Found:
        windows = self._windows(may_read=not is_consistent, is_anew=is_consistent)
        nothing: Part[Entry] = parts.unknown(is_up=True)
        known = [
            each.oldest(within, after=after) if each and not is_consistent else nothing
            for each in windows
        ]
        known = self._known(own, known, within, after, limit, is_up=True)
        return parts.merged(known, limit, is_up=True)

    def _known(
        self,
        own: Found,
        known: list[Part[Entry]],
        within: Range,
        start: str | None,
        limit: int,
        *,
        is_up: bool,
    ) -> list[Part[Entry]]:
        """The parts, once channels were queried from `start` until all are known far enough.

        Each is first asked for a few entries: of many channels, a page shows one or two of each.
        """
        known = [parts.part(*own, is_up=is_up), *known]
        channels, size = self._channels or (), FEW
        while True:
            places, key = parts.short(known, limit, is_up=is_up)
            asked = [place for place in places if place][: self._left]
            if not asked:
                return known
            size = min(limit, max(size, 2 * limit // len(asked)))
            needed = within._replace(**{"until" if is_up else "since": key}) if key else within
            answers = self._query(
                [
                    self._request(
                        channels[place - 1],
                        needed,
                        start=parts.start(known[place]) or start,
                        limit=size,
                        is_up=is_up,
                    )
                    for place in asked
                ]
            )
            for place, (entries, has_more) in zip(asked, answers, strict=True):
                behind = parts.start(known[place]) or start
                sound = checked(entries, needed, start=behind, is_ascending=is_up)
                self._reading.windows.compare(channels[place - 1], sound)
                more = parts.part(sound, has_more, is_up=is_up, read_to=key)
                known[place] = parts.beyond(known[place], more)
            size = limit

    def _windows(self, *, may_read: bool, is_anew: bool = False) -> list[Window | None]:
        """The window of each channel that the reader follows, as far as there is one."""
        if self._channels is None or is_anew:
            self._channels = self._read_by(self._page.head)
            self._left = max(self._left, 2 * len(self._channels))  # for few entries, then for more
        cache, since = self._reading.windows, self._filter.since
        windows = [cache.of(each) for each in self._channels]
        if may_read:
            lacking = [place for place, each in enumerate(windows) if each is None][: self._left]
            requests = [
                self._request(
                    self._channels[place], Range(since), start=None, limit=WINDOW, is_up=False
                )
                for place in lacking
            ]
            for place, (newest, has_more) in zip(lacking, self._query(requests), strict=True):
                channel = self._channels[place]
                sound = checked(newest, Range(since), start=None, is_ascending=False)
                windows[place] = cache.keep(channel, sound, has_more, since=since)
        return windows

    def _request(
        self, channel: Channel, within: Range, *, start: str | None, limit: int, is_up: bool
    ) -> dict[str, Any]:
        return self._reading.timelines.request(
            partition_of(channel.publisher_id),
            within,
            start=start,
            limit=limit,
            ScanIndexForward=is_up,
            ConsistentRead=True,
        )

    def _query(self, requests: Sequence[dict[str, Any]]) -> list[tuple[list[Entry], bool]]:
        if not requests:
            return []
        self._left -= len(requests)
        answers = self._filter.together(*(("Query", each) for each in requests))
        return [found(each) for each in answers]

    def _read_by(self, head: Head) -> list[Channel]:
        """The channels in the head of publishers that the reader follows, or has unfollowed.

        The latter are left out of pages, as muted ones are. But a cursor remembers what it has
        looked at of them, so that after a new follow nothing is shown again.
        """
        page_filter = self._filter
        assert page_filter.reader is not None
        if not page_filter.has_row:  # a reader without one follows nobody
            return []
        followed, newer = following.told(page_filter.reader, head)
        if newer:
            more = page_filter.followed_among({each.publisher_id for each in newer})
            following.note(page_filter.readers, page_filter.user_id, page_filter.reader, head, more)
            followed += [each for each in newer if each.publisher_id in more]
        known = {each.publisher_id for each in followed}
        others = {each.publisher_id for each in head.channels.values()} - known
        unfollowed = page_filter.unfollowed_among(others)
        return [
            *followed,
            *(each for each in head.channels.values() if each.publisher_id in unfollowed),
        ]
