"""The way through three functions and two queues, each call after the one before it.

PLAN always fixes a plan, and DELIVER writes. Stores, pace, policy and loop are the product's.
"""

from __future__ import annotations

from dataclasses import replace

from fanfold import clock, names, times
from fanfold.aws.items import text
from fanfold.fanout.deliver import HAND_BACK_SECONDS
from fanfold.fanout.pacing import Pace
from fanfold.fanout.row import DELIVERING
from fanfold.fanout.segment_size import count_for, segment_range
from fanfold.fanout.transport.loop import run
from fanfold.fanout.worker_steps import Delivery, Done
from fanfold.follows import follower_estimate
from fanfold.messages import DeliverSegment
from fanfold.names import POSTS
from fanfold.timeline.entries import Entry
from proof.simulation.timed.mappings import Arrived
from proof.simulation.timed.system import System

# What a worker of the express lane might send at once.
BURST = 250


class TwoHops(System):
    """PLAN reads the ledger, the level and a sample of the ring; DELIVER reads all of it again."""

    def _plan(self, _environment: object, message: Arrived) -> None:
        fanout = self.ledger.get(self.fanout_of(message))
        assert fanout
        level = self.publishers.shards(fanout.publisher_id).level
        sample = follower_estimate.sample(self.edges_table, fanout.publisher_id, level)
        followers = sample.estimate.followers
        segments, now = count_for(followers), times.to_text(clock.now_ms())
        assert self.ledger.plan(
            fanout, segments=segments, followers=followers, level=level, resume={}, now=now
        )
        pending = frozenset(range(segments))
        planned = replace(fanout, state=DELIVERING, segments=segments, pending=pending)
        self.segments.send_pending(planned)

    def _deliver(self, _pace: Pace, message: Arrived) -> None:
        command = DeliverSegment.from_content(message.content)
        fanout = self.ledger.get(command.fanout_id)
        assert fanout
        key = {"ref_id": text(fanout.fanout_id)}
        answer = self.dynamodb.get_item(TableName=POSTS.name, Key=key, ConsistentRead=True)
        assert "deleted_at" not in answer["Item"]
        level = self.publishers.shards(fanout.publisher_id).level
        part = segment_range(command.segment, command.segments)
        delivery = Delivery(
            start=part.lo,
            hi=part.hi,
            level=level,
            pace=Pace(self.budget.express.worker_rate, BURST),
            stop_at=clock.monotonic() + names.DELIVER.seconds - HAND_BACK_SECONDS,
            chance=clock.chance,
        )
        entry = Entry(fanout.sort_key, fanout.publisher_id, fanout.expires_at)
        end = run(delivery, self.transport, entry)
        assert isinstance(end, Done)
        now = times.to_text(clock.now_ms())
        self.ledger.finish_segment(fanout, command.segment, written=end.written, now=now)
