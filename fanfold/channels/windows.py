"""The newest entries of each channel, as a warm container has read them.

A window is read consistently, and kept with the channel's tag in a head that was read before. While
the head has the same tag, every post whose fan-out is complete is in the window, if it is new
enough. A head that is one post later tells which.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from fanfold import invariants, times
from fanfold.channels.head import MARGIN_DAYS, MOST, Channel
from fanfold.channels.parts import Part, part, unknown
from fanfold.timeline.entries import Entry
from fanfold.timeline.marks import DAY_SECONDS
from fanfold.timeline.page_reads import Range

# What the first query of the largest page wants: 5 read units for ids of 36 characters. The windows
# of a full head take about 2 MB.
WINDOW = 101
# A head that was rebuilt may have more channels than `MOST`, and each page reads all of them.
MOST_WINDOWS = 4 * MOST


class Window(NamedTuple):
    """The entries of one channel from the key `end` on, oldest first, with their keys."""

    tag: tuple[int, int]
    keys: Sequence[str]
    entries: Sequence[Entry]
    end: str

    def newest(self, within: Range, *, before: str | None) -> Part[Entry]:
        """The window as a part of a union, like a source's `newest`."""
        low, high = self._places(within.since, before or within.until)
        return part(self.entries[low:high][::-1], self.end > within.since, is_up=False)

    def oldest(self, within: Range, *, after: str | None) -> Part[Entry]:
        """The window as a part of a union, like a source's `oldest`."""
        start = after or within.since
        if self.end > start:
            return unknown(is_up=True)
        low, high = self._places(start, within.until)
        return part(self.entries[low:high], False, is_up=True)

    def has(self, entry: Entry) -> bool:
        """Whether the entry is in the window, or too old for it."""
        return entry.sort_key < self.end or entry.sort_key in self.keys

    def plus(self, entry: Entry, tag: tuple[int, int]) -> Window:
        """The window with one more entry, unless it has it, or that is too old for it."""
        if self.has(entry):
            return self._replace(tag=tag)
        place = bisect_left(self.keys, entry.sort_key)
        keys = [*self.keys[:place], entry.sort_key, *self.keys[place:]]
        entries = [*self.entries[:place], entry, *self.entries[place:]]
        if len(keys) <= 2 * WINDOW:
            return Window(tag, keys, entries, self.end)
        return Window(tag, keys[-WINDOW:], entries[-WINDOW:], keys[-WINDOW])

    def _places(self, after: str, before: str | None) -> tuple[int, int]:
        """The places of the entries between two keys or times."""
        low = bisect_right(self.keys, after)
        return low, len(self.keys) if before is None else bisect_left(self.keys, before)


class Windows:
    """The windows of a container, by channel."""

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}

    def forget(self) -> None:
        """Empty the cache, as after a cold start."""
        self._windows.clear()

    def of(self, channel: Channel) -> Window | None:
        """The window of a channel, unless it was never read or may be too old."""
        window = self._windows.get(channel.key)
        if window and channel.last and window.tag == (channel.version, channel.seq - 1):
            # Nothing else was put there since, or the head does not tell yet.
            window = window.plus(Entry(channel.last, channel.publisher_id), channel.tag)
            self._windows[channel.key] = window
        return window if window and window.tag == channel.tag else None

    def keep(
        self, channel: Channel, newest: Sequence[Entry], has_more: bool, *, since: str
    ) -> Window:
        """Store a window of the newest entries since a time, newest first; there may be more below.

        They were read consistently after the head with this `channel`.
        """
        _check(channel, newest)
        keys = [each.sort_key for each in reversed(newest)]
        # One text for the publisher of all.
        entries = [Entry(key, channel.publisher_id) for key in keys]
        window = Window(channel.tag, keys, entries, keys[0] if has_more and keys else since)
        self._windows.pop(channel.key, None)
        self._windows[channel.key] = window
        if len(self._windows) > MOST_WINDOWS:  # some were removed from the head
            del self._windows[next(iter(self._windows))]
        return window

    def compare(self, channel: Channel, entries: Sequence[Entry]) -> None:
        """Forget the window of a channel if it lacks one of these entries.

        It does for a while, without a new tag, where a post is being put into the channel.
        """
        _check(channel, entries)
        window = self._windows.get(channel.key)
        if window and not all(map(window.has, entries)):
            del self._windows[channel.key]


def _check(channel: Channel, entries: Sequence[Entry]) -> None:
    """Report what entries can never be in a channel."""
    is_theirs = all(each.publisher_id == channel.publisher_id for each in entries)
    invariants.check("channel_entry", is_theirs, publisher_id=channel.publisher_id)
    ends = [each.sort_key[: times.WIDTH] for each in (*entries[:1], *entries[-1:])]
    if channel.until and all(map(times.is_text, ends)):
        newest = times.to_ms(max(ends, default=times.to_text(0)))
        stays = channel.until * 1000 >= newest + MARGIN_DAYS * DAY_SECONDS * 1000
        invariants.check("channel_until", stays, publisher_id=channel.publisher_id)
