"""Estimates the capacity, time and price that the delivery of one post takes."""

import math
from dataclasses import dataclass

from fanfold.budgets import Budget
from fanfold.fanout.plan import ONE_HOP_SECONDS, count_for
from fanfold.follows.density import SAMPLE_EDGES

MB_PER_GB = 1024


@dataclass(frozen=True)
class Prices:
    """List prices on demand, without free tiers, as third-party price guides quoted them.

    AWS's own pages are authoritative: https://aws.amazon.com/dynamodb/pricing/on-demand/ (halved in
    November 2024) and https://aws.amazon.com/lambda/pricing/ (Arm, below 7.5 billion GB-seconds a
    month).
    """

    region: str = "us-east-1"
    as_of: str = "November 2026"
    dollars_per_million_writes: float = 0.625
    dollars_per_million_reads: float = 0.125
    dollars_per_gb_second: float = 0.0000133334
    dollars_per_million_requests: float = 0.20


PRICES = Prices()

# Write units before a post is planned: the count of the publisher's rate, the post (2 with a body
# of 1 KB), its item in the outbox, the row of the ledger, and that row in the index of incomplete
# fan-outs.
ACCEPT_UNITS = 6
# Bytes of a ledger row without pending segments, and of each pending segment in it.
LEDGER_ROW_BYTES = 425
PENDING_SEGMENT_BYTES = 3
UNIT_BYTES = 1024
# A consistent read unit is 4 KB, and an edge takes about 80 bytes.
EDGES_PER_READ = 50
# PLAN, and then each segment, reads the row of the ledger, the post and the publisher's row.
READS_PER_LOOKUP = 3
# PLAN completes what it has delivered itself by one update, which also empties the index.
COMPLETION_UNITS = 2
# Besides its writes, a segment takes two or three sequential calls. Estimated, not measured.
SEGMENT_SECONDS = 0.05


@dataclass(frozen=True)
class Publish:
    followers: int
    lane: str
    segments: int
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
        beside = one_hop_units() if is_one_hop else ledger_units(segments)
        writes, reads = followers + beside, _read_units(followers, segments, is_one_hop=is_one_hop)
        gb_seconds = segments * segment_seconds * memory_mb / MB_PER_GB
        return cls(
            followers=followers,
            lane=name,
            segments=segments,
            write_units=writes,
            read_units=reads,
            seconds=math.ceil(segments / lane.max_concurrency) * segment_seconds,
            gb_seconds=gb_seconds,
            dynamodb_dollars=writes / 1e6 * PRICES.dollars_per_million_writes
            + reads / 1e6 * PRICES.dollars_per_million_reads,
            lambda_dollars=gb_seconds * PRICES.dollars_per_gb_second
            + segments / 1e6 * PRICES.dollars_per_million_requests,
        )


def one_hop_followers(budget: Budget) -> int:
    """To how many followers PLAN delivers a post itself, on a table that never throttles."""
    in_time = budget.publish_burst + budget.publish.worker_rate * ONE_HOP_SECONDS
    return min(SAMPLE_EDGES - 1, math.floor(in_time))


def one_hop_units() -> int:
    """Write units of a publish that PLAN delivers at once, apart from its entries."""
    return ACCEPT_UNITS + COMPLETION_UNITS


def ledger_units(segments: int) -> int:
    """The same of one that is planned, if no message is sent twice."""
    # Planning writes the row with all segments pending; each finished segment writes it again.
    rows = sum(_row_units(pending) for pending in range(1, segments + 1))
    # Completion deletes the row from the index; with several segments it is an update of its own,
    # and the plan has moved the key there, which then tells that the fan-out is large.
    completion, moved = (1, 0) if segments == 1 else (2, 2)
    return ACCEPT_UNITS + _row_units(segments) + moved + rows + completion


def _row_units(pending: int) -> int:
    return math.ceil((LEDGER_ROW_BYTES + PENDING_SEGMENT_BYTES * pending) / UNIT_BYTES)


def _read_units(followers: int, segments: int, *, is_one_hop: bool) -> int:
    edges = min(followers, SAMPLE_EDGES) + (0 if is_one_hop else followers)
    lookups = 1 if is_one_hop else 1 + segments
    return math.ceil(edges / EDGES_PER_READ) + READS_PER_LOOKUP * lookups
