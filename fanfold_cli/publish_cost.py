"""Estimates the capacity, time and price that the delivery of one post takes."""

import math
from dataclasses import dataclass

from fanfold.budgets import Budget
from fanfold.fanout.plan import count_for
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

# Write units before a post is planned: the post (2 with a body of 1 KB), its item in the outbox,
# the row of the ledger, and that row in the index of incomplete fan-outs.
ACCEPT_UNITS = 5
# Bytes of a ledger row without pending segments, and of each pending segment in it.
LEDGER_ROW_BYTES = 425
PENDING_SEGMENT_BYTES = 3
UNIT_BYTES = 1024
# A consistent read unit is 4 KB, and an edge takes about 80 bytes.
EDGES_PER_READ = 50
# A segment reads the row of the ledger and the post.
READS_PER_SEGMENT = 2
# Besides its writes, a segment takes three or four sequential calls. Estimated, not measured.
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
        segments = count_for(followers)
        name, lane = ("express", budget.express) if segments == 1 else ("bulk", budget.bulk)
        segment_seconds = followers / segments / lane.worker_rate + SEGMENT_SECONDS
        writes, reads = followers + ledger_units(segments), _read_units(followers, segments)
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


def ledger_units(segments: int) -> int:
    """Write units of a publish apart from its entries, if no message is sent twice."""
    # Planning writes the row with all segments pending; each finished segment writes it again.
    rows = sum(_row_units(pending) for pending in range(1, segments + 1))
    # Completion deletes the row from the index; with several segments it is an update of its own,
    # and the plan has moved the key there, which then tells that the fan-out is large.
    completion, moved = (1, 0) if segments == 1 else (2, 2)
    return ACCEPT_UNITS + _row_units(segments) + moved + rows + completion


def _row_units(pending: int) -> int:
    return math.ceil((LEDGER_ROW_BYTES + PENDING_SEGMENT_BYTES * pending) / UNIT_BYTES)


def _read_units(followers: int, segments: int) -> int:
    edges = followers + min(followers, SAMPLE_EDGES)  # those of DELIVER, and the sample of PLAN
    return math.ceil(edges / EDGES_PER_READ) + READS_PER_SEGMENT * segments + 1
