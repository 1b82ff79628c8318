"""DELIVER: write one post into the timelines of the followers in one segment of the ring."""

from __future__ import annotations

from dataclasses import dataclass

from fanfold import clock, times
from fanfold.aws.retries import CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, SLOWEST_CALL_SECONDS
from fanfold.errors import BadInput, Undeliverable
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import COMPLETE, STALLED, Fanout, Ledger
from fanfold.fanout.pacing import Pace
from fanfold.fanout.policy import Delivery, Done, Failed, HandBack, max_stragglers_of
from fanfold.fanout.segments import Resume
from fanfold.fanout.transport import Transport, run
from fanfold.follows import ring
from fanfold.follows.publishers_table import PublishersTable
from fanfold.messages import DeliverSegment
from fanfold.timeline.entries import Entry
from fanfold.timeline.posts import Posts

# A hand-back that got no further waits, doubling, so that the table can recover: at most 4, 8, 16
# ... 300 s, on average half of that. Twelve of them are about a quarter of an hour of standing
# still; then a person should look.
MAX_HOPS = 12
HOP_BASE_SECONDS = 2
HOP_CAP_SECONDS = 300
# For what is in flight to end, and then for the ledger's three calls, or one and the hand-back, at
# their slowest.
HAND_BACK_SECONDS = CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS + 3 * SLOWEST_CALL_SECONDS


@dataclass(frozen=True)
class Outcome:
    """What became of an order, for log and metrics."""

    what: str  # delivered, handed back, or why there was nothing to do
    written: int = 0


@dataclass(frozen=True)
class Delivering:
    """The use case behind both lanes."""

    fanouts: Ledger
    posts: Posts
    publishers: PublishersTable
    lanes: Lanes
    transport: Transport

    def deliver(
        self, order: DeliverSegment, *, pace: Pace, redelivered: bool, stop_at: float
    ) -> Outcome:
        """Deliver what is left of a segment, until about `stop_at` of the monotonic clock.

        `pace` is this worker's on the order's lane; it outlives the order.

        Raises `BadInput` for an order that the ledger does not bear out, `Undeliverable` after too
        many hand-backs without progress, and whatever the transport failed with.
        """
        fanout = self._ledger_row(order)
        if order.segment not in fanout.pending:
            self._complete(fanout)
            return Outcome("not pending")
        part = ring.segment_range(order.segment, order.segments)
        begin = fanout.resume.get(order.segment, Resume(part.lo, 0))
        # Behind what the ledger says, another message carries on. But if *this* one was received
        # before, that other message may never have been sent; and if the fan-out was given up, a
        # person has sent this one: take over.
        takes_over = redelivered or fanout.state == STALLED
        if (order.position or part.lo) < begin.position and not takes_over:
            return Outcome("behind")
        if self.posts.is_deleted(fanout.fanout_id):
            self._finish(fanout, order.segment, written=begin.written)
            return Outcome("post deleted")
        delivery = Delivery(
            start=begin.position,
            hi=part.hi,
            # Read now, not cached: of what was acknowledged before, nothing lies higher.
            level=max(fanout.level, self.publishers.shards(fanout.publisher_id).level),
            already=begin.written,
            stragglers=begin.stragglers,
            max_stragglers=max_stragglers_of(fanout.segments),
            pace=pace,
            stop_at=stop_at,
            chance=clock.chance,
        )
        entry = Entry(fanout.sort_key, fanout.publisher_id, fanout.expires_at)
        end = run(delivery, self.transport, entry)
        match end:
            case Done(written):
                self._finish(fanout, order.segment, written=written)
                return Outcome("delivered", written - begin.written)
            case HandBack():
                self._hand_back(fanout, order, end)
                return Outcome("handed back", end.written - begin.written)
            case Failed(error):
                raise error

    def _ledger_row(self, order: DeliverSegment) -> Fanout:
        fanout = self.fanouts.get(order.fanout_id)
        if fanout is None:
            raise BadInput(f"The ledger knows no fan-out '{order.fanout_id}'.")
        if fanout.segments != order.segments or order.segment >= order.segments:
            raise BadInput(
                f"Segment {order.segment} of {order.segments} is not in the plan of "
                f"'{order.fanout_id}', which has {fanout.segments}."
            )
        return fanout

    def _finish(self, fanout: Fanout, segment: int, *, written: int) -> None:
        now = times.to_text(clock.now_ms())
        after = self.fanouts.finish_segment(fanout, segment, written=written, now=now)
        after = after or self.fanouts.get(fanout.fanout_id)
        if after:
            self._complete(after)

    def _complete(self, fanout: Fanout) -> None:
        """The last segment completes the fan-out, also if a worker stopped just before it did."""
        if not fanout.pending and fanout.state != COMPLETE:
            now = times.to_text(clock.now_ms())
            self.fanouts.complete_if_delivered(fanout.fanout_id, now=now)

    def _hand_back(self, fanout: Fanout, order: DeliverSegment, end: HandBack) -> None:
        """Store how far we came, then send the rest: in that order, none of it is forgotten."""
        hops = 0 if end.progress else order.hops + 1
        if hops > MAX_HOPS:
            raise Undeliverable(
                f"Segment {order.segment} of '{order.fanout_id}' got no further in {MAX_HOPS} "
                "hand-backs; find out what holds the timelines table up, then redrive."
            )
        now = times.to_text(clock.now_ms())
        if not end.progress:
            self.fanouts.touch(fanout.fanout_id, now=now)
        else:
            resume = Resume(end.position, end.written, end.stragglers)
            if not self.fanouts.store_resume(fanout.fanout_id, order.segment, resume, now=now):
                return  # another worker is further on, or done
        rest = DeliverSegment(
            fanout_id=order.fanout_id,
            segment=order.segment,
            segments=order.segments,
            position=end.position,
            hops=hops,
        )
        ceiling = min(HOP_CAP_SECONDS, HOP_BASE_SECONDS * 2**hops)
        delay = 1 + int(clock.chance() * ceiling)
        message = rest.message(group=fanout.publisher_id, delay_seconds=delay)
        self.lanes.for_segments(order.segments).send(message)
