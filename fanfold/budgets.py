"""How PLAN, the lanes and RELATE share the write capacity of the timelines table.

An entry is one write unit. Bulk never gets all capacity, so a small publish has room beside the
largest one. `docs/operations.md` has the shares.

The numbers of workers follow from the capacity too, unless the account runs fewer at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
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

# A throttled worker slows down to its share divided by this: a new table takes about an eighth of
# the default capacity.
SLOWEST_PART = 8

BULK_PERCENT = 85
# A segment of at most 5,000 followers then takes 2 to 4 s. Its calls to the ledger take some tens
# of ms, which does not matter.
BULK_WORKER_RATE = 2_000
# Enough for 150,000 units a second; above that, each worker writes more. So all workers together
# leave most of an account's 1,000 concurrent executions to others.
MAX_BULK_WORKERS = 64

# So that a publish of one segment, at most 5,000 followers, is fast even on a single worker.
EXPRESS_WORKER_PERCENT = 25
# 40 workers at the default capacity: enough to use all of it with small publishes, although they
# mostly wait for the ledger.
UNITS_PER_EXPRESS_WORKER = 1_000
# An express worker may write this part of a second's capacity at once after a rest, so that a
# fan-out to 3,000 followers waits for its calls more than for its pace (bench ordinary). The
# maximum is half of what a new table takes in a second, the minimum what small publishes need that
# PLAN hands over.
EXPRESS_BURST_PARTS = 20
MIN_EXPRESS_BURST, MAX_EXPRESS_BURST = 250, 2_000
MIN_EXPRESS_WORKERS = 5
MAX_EXPRESS_WORKERS = 100

RELATION_PERCENT = 10
# RELATE takes ten commands at a time, but its memory comes with a third of a core. A command that
# finds its edge writes nothing, and a backfill up to 30 entries: 200 entries are 7 to 20 backfills.
RELATION_WORKER_RATE = 200
MAX_RELATION_WORKERS = 100

# Each takes ten posts at a time, and a post takes a few small calls at any capacity.
PUBLISH_WORKERS = 10
# After a rest, all workers of PLAN together may write a quarter of a second's capacity at once. So
# posts of ordinary publishers do not wait for the pace, and a table that was idle for a second
# takes them. One worker needs at most a whole sample of followers (follower_estimate.py), about a
# thousand.
PUBLISH_BURST_PARTS = 4
MAX_PUBLISH_BURST = 1_000

# The part of a stage's concurrent executions for requests and SWEEP, which one large fan-out would
# otherwise throttle.
OTHERS_PERCENT = 20
# What AWS gives a new account. It is also the least that a stage works with: two workers of each
# queue, and two executions for the others.
MIN_CONCURRENCY = 10

# Memory of PLAN and DELIVER. boto3 takes 62 us of CPU for an entry and gets a whole vCPU, so
# that the table limits the worker, not Lambda. libcurl takes a twentieth: 10,000 entries a second
# leave the 0.29 vCPU of 512 MB mostly idle, and less memory would only slow down cold starts.
WRITER_MEMORY_MB = {names.LIBCURL: 512, names.BOTO3: 1769}


class NoRoom(ValueError):
    """The account may not run the given workers at once; with `executions` it could."""

    def __init__(self, sentence: str, executions: int) -> None:
        super().__init__(sentence)
        self.executions = executions


@dataclass(frozen=True)
class LaneBudget:
    """Limits of the workers of one queue; rates are entries a second."""

    percent: int  # of the write capacity
    rate: int  # the same as a rate
    max_concurrency: int
    worker_rate: int  # of one worker

    @property
    def slowest_rate(self) -> int:
        """A worker's rate on a throttled table, at least a batch a second.

        An eighth of its share when all workers are busy, and at most its share of a new table. An
        eighth of its own rate would be too much: 40 express workers would send 50,000 entries a
        second to a new table of 4,000 units.
        """
        share = min(self.worker_rate, self.rate // self.max_concurrency) // SLOWEST_PART
        return max(MIN_WORKER_RATE, min(share, MIN_WARM_WRITE_UNITS // self.max_concurrency))

    @property
    def most(self) -> int:
        """The rate of all workers at their limits."""
        return self.max_concurrency * self.worker_rate


@dataclass(frozen=True)
class Budget:
    """How the write capacity is divided.

    PLAN and express take what the others leave, which is all of it when they are idle. Their
    workers learn how much that is when the table throttles them.
    """

    write_units_per_second: int
    publish: LaneBudget
    express: LaneBudget
    bulk: LaneBudget
    relation: LaneBudget

    @classmethod
    def of(
        cls,
        write_units_per_second: int,
        *,
        concurrency: int | None = None,
        publish_workers: int | None = None,
        express_workers: int | None = None,
        bulk_workers: int | None = None,
        relation_workers: int | None = None,
    ) -> Budget:
        """Divide a capacity, which also gives the default numbers of workers.

        With a `concurrency`, the account's concurrent executions that the stage may take, defaults
        are lowered until they fit. Raises `NoRoom` if the given numbers do not fit, and
        `ValueError` if the capacity is out of bounds or a bulk worker would have less than a batch
        a second.
        """
        units = write_units_per_second
        if not MIN_WRITE_CAPACITY <= units <= MAX_WRITE_CAPACITY:
            raise ValueError(
                f"A write capacity must be from {MIN_WRITE_CAPACITY:,} to {MAX_WRITE_CAPACITY:,} "
                f"units a second, not {units:,}."
            )
        given = {
            names.PUBLISH: publish_workers,
            names.EXPRESS: express_workers,
            names.BULK: bulk_workers,
            names.RELATION: relation_workers,
        }
        workers = _workers(_wanted(units), given, concurrency)
        return cls(
            units,
            publish=_express(units, workers[names.PUBLISH]),
            express=_express(units, workers[names.EXPRESS]),
            bulk=_bulk(units, workers[names.BULK]),
            relation=_relation(units, workers[names.RELATION]),
        )

    @property
    def workers(self) -> dict[names.Queue, int]:
        """The most workers of each queue."""
        return {
            names.PUBLISH: self.publish.max_concurrency,
            names.EXPRESS: self.express.max_concurrency,
            names.BULK: self.bulk.max_concurrency,
            names.RELATION: self.relation.max_concurrency,
        }

    @property
    def all_workers(self) -> int:
        return sum(self.workers.values())

    @property
    def publish_burst(self) -> int:
        """The entries that a worker of PLAN may write at once: at least a batch."""
        parts = PUBLISH_BURST_PARTS * self.publish.max_concurrency
        return max(MIN_WORKER_RATE, min(MAX_PUBLISH_BURST, self.write_units_per_second // parts))

    @property
    def express_burst(self) -> int:
        """The entries that an express worker may write at once."""
        burst = min(MAX_EXPRESS_BURST, self.write_units_per_second // EXPRESS_BURST_PARTS)
        return max(MIN_EXPRESS_BURST, burst)

    @property
    def left_for_express(self) -> int:
        """The rate that PLAN and express have at least, however busy the others are."""
        return max(0, self.write_units_per_second - self.bulk.most - self.relation.most)


def room_of(concurrency: int) -> int:
    """How many of these concurrent executions workers may take."""
    return concurrency * (100 - OTHERS_PERCENT) // 100


def executions_for(workers: int) -> int:
    """The concurrent executions that leave room for this many workers."""
    return -(-workers * 100 // (100 - OTHERS_PERCENT))


def _wanted(units: int) -> dict[names.Queue, int]:
    """The workers that a capacity has work for."""
    express = units // UNITS_PER_EXPRESS_WORKER
    relation = _percent(RELATION_PERCENT, units) // RELATION_WORKER_RATE
    return {
        names.PUBLISH: PUBLISH_WORKERS,
        names.EXPRESS: min(MAX_EXPRESS_WORKERS, max(MIN_EXPRESS_WORKERS, express)),
        names.BULK: _power_of_two(_percent(BULK_PERCENT, units) / BULK_WORKER_RATE),
        names.RELATION: min(MAX_RELATION_WORKERS, max(MIN_WORKERS, relation)),
    }


def _workers(
    wanted: Mapping[names.Queue, int],
    given: Mapping[names.Queue, int | None],
    concurrency: int | None,
) -> dict[names.Queue, int]:
    """The workers of each queue: as given, else as wanted, or what there is room for."""
    fixed = {queue: number for queue, number in given.items() if number is not None}
    workers = {**wanted, **fixed}
    if concurrency is None or sum(workers.values()) <= room_of(concurrency):
        return workers
    least = {queue: fixed.get(queue, MIN_WORKERS) for queue in workers}
    room, needed = room_of(concurrency), sum(least.values())
    left = room - needed
    if left < 0:
        raise NoRoom(
            f"The queues want at least {needed} workers at once ({in_words(least)}). Of "
            f"{concurrency} concurrent executions {room} are theirs, and the others are for "
            "requests and SWEEP.",
            executions_for(needed),
        )
    more = {queue: workers[queue] - least[queue] for queue in workers}
    shares = {queue: least[queue] + more[queue] * left // sum(more.values()) for queue in workers}
    if names.BULK not in fixed:
        shares[names.BULK] = 1 << (shares[names.BULK].bit_length() - 1)  # a power of two still
    return shares


def in_words(workers: Mapping[names.Queue, int]) -> str:
    """Such as `publish 10, express 40, bulk 16, relation 20`."""
    return ", ".join(f"{queue.name.lower()} {number}" for queue, number in workers.items())


def _express(units: int, workers: int) -> LaneBudget:
    """Also the budget of PLAN, which writes as express does."""
    return LaneBudget(100, units, workers, _percent(EXPRESS_WORKER_PERCENT, units))


def _bulk(units: int, workers: int) -> LaneBudget:
    rate = _percent(BULK_PERCENT, units)
    if rate // workers < MIN_WORKER_RATE:
        raise ValueError(
            f"At a write capacity of {units:,} units a second bulk has at most "
            f"{rate // MIN_WORKER_RATE:,} workers, not {workers:,}: each of them needs "
            f"{MIN_WORKER_RATE} entries a second, one batch."
        )
    return LaneBudget(BULK_PERCENT, rate, workers, rate // workers)


def _relation(units: int, workers: int) -> LaneBudget:
    rate = _percent(RELATION_PERCENT, units)
    return LaneBudget(RELATION_PERCENT, rate, workers, max(MIN_WORKER_RATE, rate // workers))


def _power_of_two(wanted: float) -> int:
    """The nearest power of two, by ratio, within the bounds of bulk.

    The number of segments is a power of two too, so no worker idles in the last round.
    """
    within = min(MAX_BULK_WORKERS, max(MIN_WORKERS, wanted))
    return 1 << round(math.log2(within))


def _percent(percent: int, units: int) -> int:
    return units * percent // 100
