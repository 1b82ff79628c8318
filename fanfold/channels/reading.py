"""Reads channels beside a reader's own timeline, if there are any.

Most stages have none. Their functions read the head now and then, and import nothing else of this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fanfold.timeline.page_reads import Range, Source

if TYPE_CHECKING:
    from fanfold.channels.known_head import KnownHead
    from fanfold.channels.union import ChannelUnion
    from fanfold.channels.windows import Windows
    from fanfold.timeline.entries import Entries, Entry
    from fanfold.timeline.visibility import PageFilter

# The late entries that may come into channels within a second, before a container knows of them.
HIDDEN = 50


class ChannelReading:
    """What a warm container reads channels with."""

    def __init__(self, head: KnownHead, timelines: Entries) -> None:
        self.head, self.timelines = head, timelines

    @cached_property
    def windows(self) -> Windows:
        from fanfold.channels.windows import Windows

        return Windows()

    def forget(self) -> None:
        """Empty the caches, as after a cold start."""
        self.head.forget()
        self.windows.forget()


class ChannelPage:
    """The reader's own timeline, and its union with channels once the head tells of some."""

    def __init__(
        self, reading: ChannelReading, own: Source[Entry], page_filter: PageFilter
    ) -> None:
        self.reading, self.filter, self._own = reading, page_filter, own
        self.source = Source(self._newest, self._oldest)
        self.head, self._request = reading.head.cached, reading.head.request()

    def wanted(self) -> dict[str, Any] | None:
        """What to read beside the reader's row: the head, if it is time."""
        return self._request.wanted if self._request else None

    def receive(self, answer: Mapping[str, Any]) -> None:
        """Take what was wanted. Raises `TryLater`."""
        assert self._request
        self.head = self.reading.head.receive(self._request, answer)

    def _newest(self, within: Range, **about: Any) -> tuple[Sequence[Entry], bool]:
        own = self._own.newest(within, **about)
        return self._union.newest(own, within, **about) if self.head.channels else own

    def _oldest(
        self, within: Range, *, is_consistent: bool, **about: Any
    ) -> tuple[Sequence[Entry], bool]:
        own = self._own.oldest(within, is_consistent=is_consistent, **about)
        if is_consistent:
            self.head = self.reading.head.reload()
        if not self.head.channels:
            return own
        self.source.hidden = HIDDEN
        return self._union.oldest(own, within, is_consistent=is_consistent, **about)

    @cached_property
    def _union(self) -> ChannelUnion:
        from fanfold.channels.union import ChannelUnion

        return ChannelUnion(self)
