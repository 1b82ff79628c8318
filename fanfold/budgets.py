"""The shares of the lanes and of RELATE in the write capacity of the timelines table.

An entry is one write unit. Bulk never gets all capacity, so a small publish finds some beside the
largest one. `docs/operations.md` has the calculation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from fanfold import names

# AWS's default quota for an on-demand table. A new table begins with 4,000 units a second; workers
# slow down until it is warm.
DEFAULT_WRITE_CAPACITY = 40_000
# A new on-demand table can take this anyway; DynamoDB refuses a smaller warm throughput.
MIN_WARM_WRITE_UNITS = 4_000
# An express worker gets a quarter of it: one batch of 25 a second.
MIN_WRITE_CAPACITY = 100
# Refuses mistyped numbers; far beyond what any table has been seen to take.
MAX_WRITE_CAPACITY = 10_000_000
# Lambda's minimum for an event source mapping.
MIN_WORKERS = 2
# One batch a second; with less, a worker would wait before each batch.
MIN_WORKER_RATE = 25

BULK_PERCENT = 85
# A segment of at most 5,000 followers then takes 2 to 4 s, beside which its calls to the ledger,
# some tens of ms, do not matter.
BULK_WORKER_RATE = 2_000
# Enough for 150,000 units a second; above that, each worker writes more. So all workers together
# leave most of an account's 1,000 concurrent executions to others.
MAX_BULK_WORKERS = 64

# So that a publish of one segment, at most 5,000 followers, is fast even on a single worker.
EXPRESS_WORKER_PERCENT = 25
# 40 workers at the default capacity: enough to use all of it with small publishes, although they
# mostly wait for the ledger.
UNITS_PER_EXPRESS_WORKER = 1_000
MIN_EXPRESS_WORKERS = 5
MAX_EXPRESS_WORKERS = 100

RELATION_PERCENT = 10
# RELATE has ten orders at a time, but each takes CPU, of which its memory has a third of a core.
RELATION_WORKER_RATE = 200
MAX_RELATION_WORKERS = 100

# Of DELIVER by transport. boto3 takes 49 us of CPU for an entry and gets a whole vCPU, so that the
# table limits the worker, not Lambda. libcurl takes a twentieth: 10,000 entries a second leave the
# 0.29 vCPU of 512 MB mostly idle, and less memory would only slow down cold starts.
DELIVER_MEMORY_MB = {names.LIBCURL: 512, names.BOTO3: 1769}


@dataclass(frozen=True)
class Lane:
    """Limits of the workers of one queue; rates are entries a second."""

    percent: int  # of the write capacity
    rate: int  # the same as a rate
    max_concurrency: int
    worker_rate: int  # of one worker

    @property
    def most(self) -> int:
        """The rate of all workers at their limits."""
        return self.max_concurrency * self.worker_rate


@dataclass(frozen=True)
class Budget:
    """How the write capacity is divided.

    Express takes what the others leave, which is all of it when they are idle. Its workers learn
    how much that is when the table throttles them.
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
        """Divide a capacity, which also gives the default numbers of workers.

        Raises `ValueError` if the capacity is out of bounds, or gives each of so many bulk workers
        less than a batch a second.
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
        """The rate that express has at least, however busy the others are."""
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

    The number of segments is a power of two too, so no worker idles in the last round.
    """
    within = min(MAX_BULK_WORKERS, max(MIN_WORKERS, wanted))
    return 1 << round(math.log2(within))


def _percent(percent: int, units: int) -> int:
    return units * percent // 100
