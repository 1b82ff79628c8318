"""Channels that nobody reads any more leave the head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fanfold import clock
from fanfold.channels.head_table import HeadTable


@dataclass(frozen=True)
class OldChannels:
    """`report` gets the publisher of each channel that was removed."""

    heads: HeadTable
    report: Callable[[str], None]

    def remove(self) -> int:
        """Remove the demoted channels whose time is over; returns how many channels are left.

        One that has changed since the head was read stays, for the next run.
        """
        head, now = self.heads.get(), clock.now_ms() // 1000
        for channel in list(head.channels.values()):
            if channel.is_active or channel.until >= now:
                continue
            if after := self.heads.remove(channel):
                head = after
                self.report(channel.publisher_id)
        return len(head.channels)
