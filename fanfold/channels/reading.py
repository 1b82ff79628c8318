"""What reads channels beside a reader's own timeline, where there are any.

Most stages have none. Their functions read the head now and then, and load nothing else of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fanfold.timeline.picking import Range, Source

if TYPE_CHECKING:
    from fanfold.channels.known_head import KnownHead
    from fanfold.channels.union import Union
    from fanfold.channels.windows import Windows
    from fanfold.timeline.entries import Entries, Entry
    from fanfold.timeline.visibility import PageFilter

# Late entries that come into channels within a second, while a container knows of none of them.
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

    def union(self, own: Source[Entry], sight: PageFilter) -> Source[Entry]:
        """The source of one page, from that of the reader's own timeline."""
        return _Page(self, own, sight)


class _Page(Source["Entry"]):
    """The reader's own timeline, and its union with channels once the head tells of some."""

    def __init__(self, reading: ChannelReading, own: Source[Entry], sight: PageFilter) -> None:
        super().__init__(self._newest, self._oldest)
        self._reading, self._own, self._sight = reading, own, sight

    def _newest(self, within: Range, **about: Any) -> tuple[Sequence[Entry], bool]:
        own = self._own.newest(within, **about)
        return self._union.newest(own, within, **about) if self._has_channels else own

    def _oldest(
        self, within: Range, *, is_consistent: bool, **about: Any
    ) -> tuple[Sequence[Entry], bool]:
        own = self._own.oldest(within, is_consistent=is_consistent, **about)
        if is_consistent:
            self._sight.head = self._reading.head.reload()
        if not self._has_channels:
            return own
        self.hidden = HIDDEN
        return self._union.oldest(own, within, is_consistent=is_consistent, **about)

    @property
    def _has_channels(self) -> bool:
        return bool(self._sight.head.channels)

    @cached_property
    def _union(self) -> Union:
        from fanfold.channels.union import Union

        return Union(self._reading, self._sight)
