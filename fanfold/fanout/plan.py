"""PLAN: deliver to few followers at once; cut the ring of many into segments, and send those.

What one sample of the ring holds whole needs no plan: the entries are written here, and one update
completes the fan-out. Everything else is planned, and goes to a lane.
A post of a publisher who has a channel is a single entry (`channels/delivery.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fanfold import clock, times
from fanfold.errors import BadInput, TryLater
from fanfold.fanout.backlog import Resume
from fanfold.fanout.deliver import Outcome
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import Ledger, planned_at
from fanfold.fanout.lookup import Found, Lookup
from fanfold.fanout.pacing import Pace
from fanfold.fanout.row import DELIVERING, ENDED, EXPIRED, QUEUED, VOID, Fanout
from fanfold.fanout.segment_size import count_for
from fanfold.fanout.transport.loop import Loop
from fanfold.fanout.worker_steps import Delivery, Done, Failed, HandBack, max_stragglers_of
from fanfold.follows import follower_estimate, ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.follower_estimate import Sample
from fanfold.timeline.entries import Entry
from fanfold.timeline.posts import Post

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from fanfold.channels.delivery import ChannelDelivery

# How long PLAN itself writes. A sample takes far less. But on a slow table, each message would hold
# up a slot of PLAN for half a minute, and with it follows and other posts.
ONE_HOP_SECONDS = 2.0
IN_CHANNEL = "in the channel"  # an outcome: the post has one entry, which all followers read


@dataclass(frozen=True)
class Planning:
    """The use case behind the publish queue; `threads` make calls in parallel."""

    lookup: Lookup
    ledger: Ledger
    edges_table: EdgesTable
    lanes: Lanes
    loop: Loop
    threads: Executor | None = None
    channels: ChannelDelivery | None = None

    def plan(
        self, fanout_id: str, *, publisher_id: str, pace: Pace, redelivered: bool, stop_at: float
    ) -> Outcome:
        """Deliver an accepted fan-out at once, or fix its plan and send its segments.

        `publisher_id` is probably the post's publisher. `pace` is this worker's; it outlives the
        message. No entry is written here after `stop_at` of the monotonic clock.

        A second message for a planned fan-out does nothing, unless it is a redelivery: then the
        first worker may have crashed between writing the plan and sending it. A fan-out that has
        expired ends here. Raises `BadInput` for an unknown fan-out, and whatever error the
        transport failed with.
        """
        found = self.lookup.find_with_followers(fanout_id, publisher_id)
        fanout = found.fanout
        if fanout is None:
            raise BadInput(f"The ledger knows no fan-out '{fanout_id}'.")
        now_ms = clock.now_ms()
        if fanout.state == VOID:
            # The function was frozen as it stored the post. All who can see it must get it.
            if not _is_shown(found.post, fanout) or fanout.has_expired(now_ms):
                return Outcome("void before")
            fanout = self._reopen(fanout, now=times.to_text(now_ms))
        if fanout.state in ENDED:
            return Outcome(fanout.state)
        if fanout.has_expired(now_ms):
            self.ledger.expire(fanout, now=times.to_text(now_ms))
            return Outcome(EXPIRED)
        # A door sends its command once the post is stored, so a post that is missing then was lost,
        # and DELIVER says so. SWEEP asks about rows without knowing.
        if fanout.awaits_plan and fanout.asked_at and not _is_stored(found.post, fanout):
            if fanout.may_be_stored(now_ms):
                return Outcome("not stored")  # SWEEP asks again
            is_void = self.ledger.void(fanout, now=times.to_text(now_ms))
            return Outcome(VOID if is_void else "not stored")
        if fanout.awaits_plan:
            return self._begin(fanout, found, pace, redelivered=redelivered, stop_at=stop_at)
        if fanout.state == DELIVERING and redelivered:
            self.lanes.send_pending(fanout, self.threads)
            return Outcome("sent again")
        return Outcome("planned before")

    def _reopen(self, void: Fanout, *, now: str) -> Fanout:
        opened = replace(void, state=QUEUED, changed_at=now)
        if self.ledger.open(opened, over=void):
            raise TryLater("Somebody else has just opened this fan-out again.")
        return opened

    def _begin(
        self, fanout: Fanout, found: Found, pace: Pace, *, redelivered: bool, stop_at: float
    ) -> Outcome:
        sample = follower_estimate.sample(
            self.edges_table,
            fanout.publisher_id,
            found.level,
            first=found.first_page,
            threads=self.threads,
        )
        if sample.estimate == (0, True):
            return self._complete(fanout, 0)
        post = found.post
        is_there = _is_shown(post, fanout)
        followers = sample.estimate.followers
        entry = Entry(fanout.sort_key, fanout.publisher_id, fanout.expires_at)
        if self.channels and is_there:
            told = self.channels.deliver(entry, followers)
            if told is not None:
                return self._complete_in_channel(fanout, followers, told.revision)
        # A redelivered message may have stopped its worker, which must not happen twice; a lane has
        # more time. A post over the rate must take no time of PLAN, which everybody's posts pass.
        is_for_a_lane = redelivered or fanout.is_over_rate
        if is_for_a_lane or not _fits(sample) or not is_there:
            return self._plan(fanout, sample, found.level)
        end = self.loop.run(
            Delivery(
                start=ring.START,
                hi=ring.END,
                edges=sample.edges,
                max_stragglers=max_stragglers_of(1),
                pace=pace,
                stop_at=min(stop_at, clock.monotonic() + ONE_HOP_SECONDS),
                chance=clock.chance,
            ),
            entry,
        )
        match end:
            case Done(written):
                return self._complete(fanout, written)
            case HandBack(position, written, progress, stragglers):
                resume = Resume(position, written, stragglers) if progress else None
                return self._plan(fanout, sample, found.level, resume)
            case Failed(error):
                raise error

    def _complete(self, fanout: Fanout, written: int) -> Outcome:
        """Complete a fan-out that has all its entries; this counts them once."""
        now = times.to_text(clock.now_ms())
        done = self.ledger.complete_at_once(fanout.fanout_id, followers=written, now=now)
        if not done:
            # Another message has planned it meanwhile, or our own update was repeated.
            seen = self.ledger.get(fanout.fanout_id)
            if seen and seen.segments == 1 and seen.pending:
                after = self.ledger.finish_segment(seen, 0, written=written, now=now)
                done = after is not None
        return Outcome("delivered", written, fanout.lag_seconds(now) if done else None)

    def _complete_in_channel(self, fanout: Fanout, followers: int, revision: int) -> Outcome:
        """Complete a fan-out whose post is in a channel, as a head of this revision tells."""
        now = times.to_text(clock.now_ms())
        if not self.ledger.complete_in_channel(
            fanout.fanout_id, followers=followers, revision=revision, now=now
        ):
            # Our own update was repeated, or another message has planned it: it ends as that says.
            return Outcome("planned before", 1)
        return Outcome(IN_CHANNEL, 1, fanout.lag_seconds(now))

    def _plan(
        self, fanout: Fanout, sample: Sample, level: int, resume: Resume | None = None
    ) -> Outcome:
        """Fix the plan, and send it unless another worker has fixed one."""
        now = times.to_text(clock.now_ms())
        followers = sample.estimate.followers
        segments = count_for(followers)
        progress = {} if resume is None else {0: resume}
        written = 0 if resume is None else resume.written
        planned = replace(
            fanout,
            state=DELIVERING,
            segments=segments,
            pending=frozenset(range(segments)),
            resume=progress,
        )
        if not self.ledger.plan(
            fanout, segments=segments, followers=followers, level=level, resume=progress, now=now
        ):
            seen = self.ledger.get(fanout.fanout_id)
            # Compare both times, as another plan may share either: after a question by a clock that
            # is ahead, all plans have one `sent_at`, and a worker may have moved `changed_at` in
            # this millisecond. If a worker moved it since, our plan was sent. Two workers that plan
            # within one millisecond both send it, which only costs its puts again.
            if seen is None or (seen.sent_at, seen.changed_at) != (planned_at(fanout, now), now):
                return Outcome("planned before", written)  # by another message, which sends it
            planned = seen  # this worker planned it, and the answer was lost
        self.lanes.send_pending(planned, self.threads)
        return Outcome("handed back" if resume else "planned", written)


def _fits(sample: Sample) -> bool:
    """Whether PLAN has all followers at hand, and they are at most one segment."""
    return sample.estimate.exact and count_for(sample.estimate.followers) == 1


def _is_shown(post: Post | None, fanout: Fanout) -> bool:
    return post is not None and not post.deleted and _is_stored(post, fanout)


def _is_stored(post: Post | None, fanout: Fanout) -> bool:
    """Whether the post was ever there; it may have been retracted since."""
    if post is None or not post.is_of(fanout.publisher_id, fanout.sort_key):
        return False
    return post.accepted_at == fanout.accepted_at
