"""How a post gets into its publisher's channel.

A post in a channel is one entry, whatever the number of followers. There are three steps, in this
order: put the entry into the channel; say so in the head; complete the fan-out, in PLAN. So every
reader can find a complete post. After a crash between two steps, everything is decided again. A
post that is then pushed has the same key in both places, and is shown once.

Only a fan-out without a plan comes here. The update that completes it fixes which way it goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fanfold.channels.head import Head
from fanfold.channels.known_head import KnownHead
from fanfold.channels.promotion import Choice, choose
from fanfold.channels.put import put
from fanfold.errors import TryLater
from fanfold.timeline.entries import Entries, Entry

# The most decisions on one post: the head may change between its read and each step. A post that is
# pushed in the end arrives as well.
DECISIONS = 5
# If the head cannot be read, a post to at most this many followers is pushed, rather than wait for
# minutes: they are one segment, which costs half a cent.
PUSHED_UNSEEN = 5_000


@dataclass(frozen=True)
class ChannelDelivery:
    """`report` learns of each channel that is added, and of each for which there was no room.

    It gets the publisher, the estimated number of followers, and the choice.
    """

    heads: KnownHead
    entries: Entries
    threshold: int
    report: Callable[[str, int, Choice], None]

    def deliver(self, entry: Entry, followers: int) -> Head | None:
        """Put a post into its publisher's channel; None if it is to be pushed.

        Returns the head that tells of the post; the caller then completes its fan-out.

        The cached head may be of any age: if it has changed, a step is refused, and a pushed post
        arrives as well. Raises `TryLater` if the timelines table takes no entry, or if the head
        cannot be read for a post of many followers.
        """
        seen = self.heads.at_hand()
        if seen is None:  # in a cold container, while the row is throttled
            if followers > PUSHED_UNSEEN:
                raise TryLater("The channels could not be read; try again.")
            return None
        for _ in range(DECISIONS):
            since = self.heads.now()
            choice = choose(seen, entry.publisher_id, followers, threshold=self.threshold)
            if choice is Choice.PUSH:
                return None
            if choice is Choice.REFUSE:
                self.report(entry.publisher_id, followers, choice)
                return None
            told = None
            if choice is Choice.JOIN or self._promote(entry.publisher_id, seen, followers):
                put(self.entries, entry)
                told = self.heads.table.raise_seq(entry.publisher_id, entry.sort_key, seen=seen)
            if told is not None:
                self.heads.keep(told, since)
                return told
            seen = self.heads.reload()
        return None

    def _promote(self, publisher_id: str, seen: Head, followers: int) -> bool:
        """Give the publisher a channel, unless the head has changed since it was seen."""
        if self.heads.table.add(publisher_id, seen, followers=followers) is None:
            return False
        self.report(publisher_id, followers, Choice.PROMOTE)
        return True
