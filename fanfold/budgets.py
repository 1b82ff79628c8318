"""The shares of PLAN, the lanes and RELATE in the write capacity of the timelines table.

An entry is one write unit. Bulk never gets all capacity, so a small publish finds some beside the
largest one. `docs/operations.md` has the calculation.

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

# A throttled worker goes on with this part of its share: a new table takes an eighth or so of the
# default capacity.
SLOWEST_PART = 8

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
# What one of them may write at once after a rest: a twentieth of a second's capacity, so that a
# fan-out to 3,000 followers waits for its calls more than for its pace (bench ordinary). Of one
# worker that is no more than half of what a new table takes in an idle second; and with little
# capacity no less than small publishes need, which PLAN may hand over.
EXPRESS_BURST_PARTS = 20
MIN_EXPRESS_BURST, MAX_EXPRESS_BURST = 250, 2_000
MIN_EXPRESS_WORKERS = 5
MAX_EXPRESS_WORKERS = 100

RELATION_PERCENT = 10
# RELATE has ten orders at a time, but each takes CPU, of which its memory has a third of a core. An
# order that finds its edge writes nothing, and one to backfill up to 30 entries: 200 are 7 to 20
# such orders a second.
RELATION_WORKER_RATE = 200
MAX_RELATION_WORKERS = 100

# Ten posts at a time each, and what a post takes is a few small calls, at any capacity.
PUBLISH_WORKERS = 10
# What all workers of PLAN may write at once after a rest is a quarter of a second's capacity: the
# posts of ordinary publishers do not wait for their pace, and a table that is a second idle takes
# them. But no more than a whole sample of the followers (density.py) needs, about a thousand.
PUBLISH_BURST_PARTS = 4
MAX_PUBLISH_BURST = 1_000

# Of the concurrent executions that a stage may take: these are for requests and SWEEP, which would
# otherwise be throttled by one large fan-out.
OTHERS_PERCENT = 20
# What AWS gives a new account. It is also the least that a stage works with: two workers of each
# queue, and two executions for the others.
MIN_CONCURRENCY = 10

# Of PLAN and DELIVER by transport. boto3 takes 49 us of CPU for an entry and gets a whole vCPU, so
# that the table limits the worker, not Lambda. libcurl takes a twentieth: 10,000 entries a second
# leave the 0.29 vCPU of 512 MB mostly idle, and less memory would only slow down cold starts.
WRITER_MEMORY_MB = {names.LIBCURL: 512, names.BOTO3: 1769}


class NoRoom(ValueError):
    """The given workers are more than the account may run at once; `executions` would do."""

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
        """What a worker goes on with on a throttled table, at least a batch a second.

        An eighth of its share where all are at work, and no more than its share of a new table. Of
        its own rate, 40 express workers would send a new table of 4,000 units 50,000 a second.
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
        `ValueError` if the capacity is out of bounds, or gives each of so many bulk workers less
        than a batch a second.
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
        """How many there are at most of each queue."""
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
        """The same of a worker of express."""
        burst = min(MAX_EXPRESS_BURST, self.write_units_per_second // EXPRESS_BURST_PARTS)
        return max(MIN_EXPRESS_BURST, burst)

    @property
    def left_for_express(self) -> int:
        """The rate that PLAN and express have at least, however busy the others are."""
        return max(0, self.write_units_per_second - self.bulk.most - self.relation.most)


def room_of(concurrency: int) -> int:
    """How many of so many concurrent executions the workers may take."""
    return concurrency * (100 - OTHERS_PERCENT) // 100


def executions_for(workers: int) -> int:
    """The concurrent executions that leave room for so many workers."""
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
    """The given numbers, and for the other queues what they want, or their part of the room."""
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
            "requests and SWEEP. Give fewer workers, or ask AWS for a higher quota.",
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
    """Of PLAN too, which writes as express does."""
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
