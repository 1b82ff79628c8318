"""The read marker: how far a reader has read. It only moves up, towards newer entries."""

from __future__ import annotations

from dataclasses import dataclass

from fanfold import clock, times
from fanfold.aws.retries import STEP
from fanfold.errors import Contended
from fanfold.ids import sort_key
from fanfold.timeline.readers import Readers


@dataclass(frozen=True)
class Marking:
    """The use case behind the route that moves the marker."""

    readers: Readers

    def read_up_to(self, user_id: str, published_at: int, ref_id: str, *, now: int) -> str:
        """Move the marker up to an entry; returns the sort key at which it is then.

        Times are epoch milliseconds. One in the future becomes `now`: a marker that was once too
        high would hide what is unread until then, and nothing could lower it. Raises `Contended`.
        """
        marker = sort_key(times.to_text(min(published_at, now)), ref_id)
        # An attempt fails while a follow, an unfollow or a mute of the same user is written.
        for _ in clock.tries(*STEP):
            stored = self.readers.raise_marker(user_id, marker)
            if stored is not None:
                return stored
        raise Contended("Other requests of yours kept changing the same row; try again.")
