"""What each lane may write, and with how many workers: shares of a table's write capacity. Pure.

The shares are of the timelines table, where an entry is one write unit. Bulk never gets all of it,
so a small publish finds room beside the largest one. `docs/operations.md` does the sums.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fanfold import names

# AWS's default quota for one table on demand. A table takes that much once it is warm: a new one
# begins with 4,000 units a second and the workers slow down to what it takes.
DEFAULT_WRITE_CAPACITY = 40_000
# A quarter of it, an express worker's, is one batch of 25 a second.
MIN_WRITE_CAPACITY = 100
# Far beyond what a table has been seen to take; it keeps a mistyped number out.
MAX_WRITE_CAPACITY = 10_000_000
# An event source mapping takes no fewer concurrent workers.
MIN_WORKERS = 2
# One batch a second: a worker that may write less would hold each batch back.
MIN_WORKER_RATE = 25

BULK_PERCENT = 85
# A segment has at most 5,000 followers, so it takes 2 to 4 s: its few calls to the ledger, some
# tens of ms, are small beside it, and so is the CPU that it needs.
BULK_WORKER_RATE = 2_000
# What 150,000 units a second ask for. Above, each worker writes more, and the three lanes together
# leave most of an account's 1,000 concurrent executions to others.
MAX_BULK_WORKERS = 64

# A publish of one segment, at most 5,000 followers, is quick also when it is alone.
EXPRESS_WORKER_PERCENT = 25
# 40 workers at the default capacity: enough small publishes at a time to use all of it, though
# most of their time goes to the ledger.
UNITS_PER_EXPRESS_WORKER = 1_000
MIN_EXPRESS_WORKERS = 5
MAX_EXPRESS_WORKERS = 100

RELATION_PERCENT = 10
# RELATE writes one edge after the other, about 5 ms each, and reads in between.
RELATION_WORKER_RATE = 200
MAX_RELATION_WORKERS = 100

# Of DELIVER, by what speaks to DynamoDB there. boto3 takes 49 us of CPU for an entry, so it gets
# one whole vCPU: with less, Lambda would throttle the worker and not the table. libcurl takes a
# twentieth: even 10,000 entries a second leave the 0.29 vCPU of 512 MB mostly idle, and less would
# only make a cold start slower.
DELIVER_MEMORY_MB = {names.LIBCURL: 512, names.BOTO3: 1769}


@dataclass(frozen=True)
class Lane:
    """What the workers of one queue may write."""

    percent: int  # of the write capacity, at most
    rate: int  # the same in entries a second
    max_concurrency: int  # workers at a time
    worker_rate: int  # entries a second of one worker, at most

    @property
    def most(self) -> int:
        """Entries a second of all workers at their own limits."""
        return self.max_concurrency * self.worker_rate


@dataclass(frozen=True)
class Budget:
    """How a write capacity is divided among the lanes.

    Express has no share of its own: it takes what the others leave, which is all of it when they
    are idle. Its workers slow down when the table throttles them, and so find out how much that is.
    """

    write_units_per_second: int
    express: Lane
    bulk: Lane
    relation: Lane

    @classmethod
    def of(
        cls,
        write_units_per_second: int,
        *,
        express_workers: int | None = None,
        bulk_workers: int | None = None,
        relation_workers: int | None = None,
    ) -> Budget:
        """Divide a capacity; workers that are not given follow from it.

        Raises `ValueError` with a sentence for a capacity that cannot be divided, and for more bulk
        workers than there are batches a second for.
        """
        units = write_units_per_second
        if not MIN_WRITE_CAPACITY <= units <= MAX_WRITE_CAPACITY:
            raise ValueError(
                f"A write capacity must be from {MIN_WRITE_CAPACITY:,} to {MAX_WRITE_CAPACITY:,} "
                f"units a second, not {units:,}."
            )
        return cls(
            units,
            express=_express(units, express_workers),
            bulk=_bulk(units, bulk_workers),
            relation=_relation(units, relation_workers),
        )

    @property
    def left_for_express(self) -> int:
        """Entries a second that express finds at least, however busy the other lanes are."""
        return max(0, self.write_units_per_second - self.bulk.most - self.relation.most)


def _express(units: int, workers: int | None) -> Lane:
    wanted = units // UNITS_PER_EXPRESS_WORKER
    return Lane(
        100,
        units,
        workers or min(MAX_EXPRESS_WORKERS, max(MIN_EXPRESS_WORKERS, wanted)),
        _percent(EXPRESS_WORKER_PERCENT, units),
    )


def _bulk(units: int, workers: int | None) -> Lane:
    rate = _percent(BULK_PERCENT, units)
    workers = workers or _power_of_two(rate / BULK_WORKER_RATE)
    if rate // workers < MIN_WORKER_RATE:
        raise ValueError(
            f"At a write capacity of {units:,} units a second bulk has at most "
            f"{rate // MIN_WORKER_RATE:,} workers, not {workers:,}: each of them needs "
            f"{MIN_WORKER_RATE} entries a second, one batch."
        )
    return Lane(BULK_PERCENT, rate, workers, rate // workers)


def _relation(units: int, workers: int | None) -> Lane:
    rate = _percent(RELATION_PERCENT, units)
    wanted = rate // RELATION_WORKER_RATE
    return Lane(
        RELATION_PERCENT,
        rate,
        workers or min(MAX_RELATION_WORKERS, max(MIN_WORKERS, wanted)),
        RELATION_WORKER_RATE,
    )


def _power_of_two(wanted: float) -> int:
    """The nearest power of two, by ratio, within the bounds of bulk.

    The number of segments is a power of two as well, so no worker idles in the last round.
    """
    within = min(MAX_BULK_WORKERS, max(MIN_WORKERS, wanted))
    return 1 << round(math.log2(within))


def _percent(percent: int, units: int) -> int:
    return units * percent // 100
