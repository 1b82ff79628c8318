"""Estimates the capacity, time and price of the delivery of one post."""

import math
from dataclasses import dataclass

from fanfold import names
from fanfold.budgets import Budget
from fanfold.fanout.deliver import HAND_BACK_SECONDS
from fanfold.fanout.plan import ONE_HOP_SECONDS
from fanfold.fanout.segment_size import count_for
from fanfold.follows.follower_estimate import SAMPLE_EDGES
from fanfold_cli.cost.prices import PRICES

MB_PER_GB = 1024
# How long a request keeps a function busy, mostly waiting. Estimated, not measured.
REQUEST_SECONDS = 0.05
# Write units before a post is planned: the count of the publisher's rate, the post (2 with a body
# of 1 KB), its item in the outbox, the row of the ledger, and that row in the index of incomplete
# fan-outs.
ACCEPT_UNITS = 6
# Bytes of a ledger row: without pending segments, for each pending segment, and for the position of
# each segment that was handed back.
LEDGER_ROW_BYTES = 425
PENDING_SEGMENT_BYTES = 3
RESUME_BYTES = 31
UNIT_BYTES = 1024
# A consistent read unit is 4 KB, and an edge takes about 88 bytes.
EDGES_PER_READ = 46
# PLAN, and then each segment, reads the row of the ledger, the post and the publisher's row.
READS_PER_LOOKUP = 3
# PLAN completes what it has delivered itself by one update, which also empties the index.
COMPLETION_UNITS = 2
# Besides its writes, a segment takes two or three sequential calls. Estimated, not measured.
SEGMENT_SECONDS = 0.05
# How long a worker writes before it hands the rest of a segment back.
WORKER_SECONDS = names.DELIVER.seconds - HAND_BACK_SECONDS


@dataclass(frozen=True)
class Publish:
    followers: int
    lane: str
    segments: int
    orders: int  # messages to workers of a lane, hand-backs included
    write_units: int
    read_units: int
    seconds: float  # from the start of the first worker to the last entry
    gb_seconds: float
    dynamodb_dollars: float
    lambda_dollars: float

    @classmethod
    def to(cls, followers: int, budget: Budget, *, memory_mb: int) -> "Publish":
        """Assume that the lane has no other work, and that the table never throttles."""
        segments, is_one_hop = count_for(followers), followers <= one_hop_followers(budget)
        if is_one_hop:
            name, lane = "publish", budget.publish
        else:
            name, lane = ("express", budget.express) if segments == 1 else ("bulk", budget.bulk)
        paced = max(0, followers - budget.publish_burst) if is_one_hop else followers
        segment_seconds = paced / segments / lane.worker_rate + SEGMENT_SECONDS
        hand_backs = int(segment_seconds / WORKER_SECONDS)  # of each segment
        beside = one_hop_units() if is_one_hop else ledger_units(segments, hand_backs)
        orders = 0 if is_one_hop else segments * (1 + hand_backs)
        writes, reads = followers + beside, _read_units(followers, orders)
        gb_seconds = segments * segment_seconds * memory_mb / MB_PER_GB
        return cls(
            followers=followers,
            lane=name,
            segments=segments,
            orders=orders,
            write_units=writes,
            read_units=reads,
            seconds=math.ceil(segments / lane.max_concurrency) * segment_seconds,
            gb_seconds=gb_seconds,
            dynamodb_dollars=PRICES.dynamodb(writes=writes, reads=reads),
            lambda_dollars=PRICES.functions(gb_seconds=gb_seconds, invocations=max(1, orders)),
        )


def one_hop_followers(budget: Budget) -> int:
    """The most followers to whom PLAN delivers itself, on a table that never throttles."""
    in_time = budget.publish_burst + budget.publish.worker_rate * ONE_HOP_SECONDS
    return min(SAMPLE_EDGES - 1, math.floor(in_time))


def one_hop_units() -> int:
    """Write units of a post that PLAN delivers itself, apart from its entries."""
    return ACCEPT_UNITS + COMPLETION_UNITS


def ledger_units(segments: int, hand_backs: int = 0) -> int:
    """The same for a planned post, each of whose segments is handed back `hand_backs` times."""
    # Planning writes the row with all segments pending; each finished segment writes it again.
    counts = range(1, segments + 1)
    rows = sum(_row_units(pending, pending if hand_backs else 0) for pending in counts)
    if hand_backs:  # each writes the row; the first of a segment makes it longer
        rows += sum(_row_units(segments, resumes) for resumes in counts)
        rows += (hand_backs - 1) * segments * _row_units(segments, segments)
    # Completion removes the row from the index. With several segments it is a separate update, and
    # planning has moved the key in the index, which then says that the fan-out is large.
    completion, moved = (1, 0) if segments == 1 else (2, 2)
    return ACCEPT_UNITS + _row_units(segments) + moved + rows + completion


def _row_units(pending: int, resumes: int = 0) -> int:
    segments = PENDING_SEGMENT_BYTES * pending + RESUME_BYTES * resumes
    return math.ceil((LEDGER_ROW_BYTES + segments) / UNIT_BYTES)


def _read_units(followers: int, orders: int) -> int:
    edges = min(followers, SAMPLE_EDGES) + (followers if orders else 0)
    return math.ceil(edges / EDGES_PER_READ) + READS_PER_LOOKUP * (1 + orders)
