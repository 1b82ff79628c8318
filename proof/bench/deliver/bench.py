"""What one delivered entry costs in CPU, compared with a batch_writer that only writes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

from fanfold import names
from fanfold.fanout.deliver import Delivering, Outcome
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.pacing import Pace
from fanfold.fanout.segment_size import SEGMENT_FOLLOWERS
from fanfold.follows import ring
from fanfold.stores import Stores
from functions import _clients as product
from functions import _wiring
from proof.bench import clients, doors, stub_data
from proof.bench.endpoint import Stub, in_environment
from proof.bench.figures import BenchResult, Row
from proof.bench.paired import Contestant, Rivalry

# The largest fan-out of one segment: 200 batches, and three pages of followers, because a full page
# does not say that it is the last.
FOLLOWERS = SEGMENT_FOLLOWERS
ENTRIES = 10_000  # a block: 0.6 s of batch_writer, long enough to measure
ROUNDS, SHORT_ROUNDS = 10, 3
BLOCKS_BESIDE = 3
TARGET = 20.0


def run(*, short: bool) -> BenchResult:
    rivalry = Rivalry(
        figure="deliver.vs_batch_writer",
        target=TARGET,
        against="CPU per entry of boto3's Table.batch_writer, which only writes",
        unit="entry",
        title="CPU per delivered entry",
        work=f"segments of {FOLLOWERS:,} followers, {ENTRIES:,} entries a block, over TLS",
        rounds=SHORT_ROUNDS if short else ROUNDS,
        blocks_beside=BLOCKS_BESIDE,
    )
    with in_environment() as stub:
        users = [ring.follower_of(edge) for edge in stub_data.edges(FOLLOWERS)]
        items = stub_data.items(stub_data.entry(FOLLOWERS), users)
        libcurl = Contestant("Fanfold", _deliver(names.LIBCURL), units=ENTRIES)
        threads = Contestant("Fanfold, transport=boto3", _deliver(names.BOTO3), units=ENTRIES)
        write = clients.batch_writer(items * (ENTRIES // FOLLOWERS))
        batch_writer = Contestant("boto3 batch_writer, writing only", write, units=ENTRIES)
        for each in (libcurl, batch_writer):
            _check(stub, each)
        result = rivalry.result(libcurl, batch_writer, [] if short else [threads], stub.pinned)
        clock = [
            Row(each.name, _by_the_clock(each), "µs", "of time per entry")
            for each in (libcurl, batch_writer)
        ]
    return replace(result, rows=[*result.rows, *clock])


def _deliver(transport: str) -> Callable[[], None]:
    settings = replace(stub_data.SETTINGS, transport=transport)
    stores, sqs = Stores(product.dynamodb(settings), settings), product.sqs(settings)
    delivering = Delivering(
        _wiring.lookup(stores, product.together(settings)),
        stores.ledger,
        Lanes.of(settings, sqs),
        product.transport(settings),
    )
    command, pace = doors.command(FOLLOWERS), Pace(stub_data.UNLIMITED)

    def deliver() -> None:
        for _ in range(ENTRIES // FOLLOWERS):
            end = delivering.deliver(
                command,
                publisher_id=stub_data.publisher(FOLLOWERS),
                pace=pace,
                redelivered=False,
                sent_at=0,
                stop_at=math.inf,
            )
            if end != Outcome("delivered", FOLLOWERS):
                raise RuntimeError(f"Not all was delivered: {end}.")

    return deliver


def _by_the_clock(contestant: Contestant) -> float:
    """Microseconds of time for one entry, waiting for the stub included."""
    began = time.perf_counter()
    contestant.block()
    return 1e6 * (time.perf_counter() - began) / contestant.units


def _check(stub: Stub, contestant: Contestant) -> None:
    """Raise `RuntimeError` unless a block writes every entry."""
    stub.written()
    contestant.block()
    entries, _ = stub.items()
    if entries != ENTRIES:
        raise RuntimeError(f"{contestant.name} wrote {entries} entries, not {ENTRIES}.")
