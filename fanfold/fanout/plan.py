"""PLAN: count the followers, cut the ring into segments, and send those to a lane."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fanfold import clock, times
from fanfold.errors import BadInput
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import DELIVERING, ENDED, Fanout
from fanfold.follows import density
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.publishers_table import PublishersTable

if TYPE_CHECKING:
    from concurrent.futures import Executor

# About 1 s of writing for one worker: short enough to repeat after a crash, long enough that the
# ledger costs 0.02 % of the writes.
SEGMENT_FOLLOWERS = 5_000
# The ledger row lists the pending segments: 4,096 numbers are about 16 KB, far below 400 KB.
MAX_SEGMENTS = 4_096


def count_for(followers: int) -> int:
    """Number of segments, a power of two of at least 1, for an estimated number of followers."""
    wanted = -(-followers // SEGMENT_FOLLOWERS)
    return min(MAX_SEGMENTS, 1 << max(0, wanted - 1).bit_length())


@dataclass(frozen=True)
class Planning:
    """The use case behind the publish queue; `threads` make calls in parallel."""

    ledger: Ledger
    edges_table: EdgesTable
    publishers: PublishersTable
    lanes: Lanes
    threads: Executor | None = None

    def plan(self, fanout_id: str, *, redelivered: bool) -> None:
        """Fix the plan of an accepted fan-out and send its segments.

        A second message for a planned fan-out does nothing, unless it is a redelivery: then the
        first worker may have crashed between writing the plan and sending it. A fan-out that has
        expired ends here. Raises `BadInput` for an unknown fan-out.
        """
        fanout = self.ledger.get(fanout_id)
        if fanout is None:
            raise BadInput(f"The ledger knows no fan-out '{fanout_id}'.")
        if fanout.state in ENDED:
            return
        now_ms = clock.now_ms()
        if fanout.has_expired(now_ms):
            self.ledger.expire(fanout, now=times.to_text(now_ms))
        elif fanout.awaits_plan:
            planned = self._fix(fanout)
            if planned:
                self.lanes.send_pending(planned, self.threads)
        elif fanout.state == DELIVERING and redelivered:
            self.lanes.send_pending(fanout, self.threads)

    def _fix(self, fanout: Fanout) -> Fanout | None:
        now = times.to_text(clock.now_ms())
        # Read after acceptance: no edge acknowledged before the publish lies higher.
        level = self.publishers.shards(fanout.publisher_id).level
        followers, _ = density.estimate(
            self.edges_table, fanout.publisher_id, level, threads=self.threads
        )
        if followers == 0:
            self.ledger.complete_without_followers(fanout.fanout_id, now=now)
            return None
        segments = count_for(followers)
        planned = self.ledger.plan(
            fanout, segments=segments, followers=followers, level=level, now=now
        )
        if not planned:
            seen = self.ledger.get(fanout.fanout_id)
            if seen is None or seen.state != DELIVERING or seen.changed_at != now:
                return None  # another message planned the fan-out, and sends it
            return seen  # this worker planned it, and the answer was lost
        pending = frozenset(range(segments))
        return replace(fanout, state=DELIVERING, segments=segments, pending=pending)
