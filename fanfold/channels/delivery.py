"""How a post gets into its publisher's channel.

A post in a channel is one entry, whatever the number of followers. Three steps, in this order: the
entry is put into the channel; the head says that something was put there; PLAN completes the
fan-out. So what is complete can be found by everybody. After a crash between any two of them, all
is decided anew: what is then pushed has an entry in the channel too, under the same key, and is
shown once.

Only a fan-out without a plan comes here. The update that completes it says which way it goes, once.
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

# The head may change between its read and each step: then all is decided anew, so often. A post
# that is pushed in the end arrives as well.
DECISIONS = 5
# Followers to whom a post is pushed rather than made wait minutes for a head that cannot be read:
# those of one segment, who cost half a cent.
PUSHED_UNSEEN = 5_000


@dataclass(frozen=True)
class ChannelDelivery:
    """`report` hears of each channel that is added, and of each for which there was no room.

    It gets the publisher, the estimated number of followers, and the choice.
    """

    heads: KnownHead
    entries: Entries
    threshold: int
    report: Callable[[str, int, Choice], None]

    def deliver(self, entry: Entry, followers: int) -> Head | None:
        """Put a post into its publisher's channel; None if it is to be pushed.

        Returns the head that tells of the post, whose fan-out has no plan, and is complete then.

        The head may be of any age: where it has changed, a step is refused, and a post that is
        pushed arrives as well. Raises `TryLater` if the timelines table takes no entry, and if the
        head cannot be read for a post of many followers.
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
