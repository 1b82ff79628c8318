"""What one written entry costs in CPU, compared with boto3's batch_writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench import clients, stub_data
from bench.endpoint import Stub, in_environment
from bench.figures import Result
from bench.paired import Contestant, Rivalry
from bench.writer import ours, pynamo
from fanfold import names
from fanfold.follows import ring
from functions import _clients as product

ITEMS = 2_500  # a call: 100 batches
CALLS = 4  # a block: 0.6 s of batch_writer, long enough to measure
ROUNDS, SHORT_ROUNDS = 10, 3
BLOCKS_BESIDE = 3
THREADS = 16
TARGET = 35.0

Write = Callable[[], None]


def run(*, short: bool) -> Result:
    rivalry = Rivalry(
        figure="writer.vs_batch_writer",
        target=TARGET,
        against="CPU per entry of boto3's Table.batch_writer",
        unit="entry",
        title="CPU per written entry",
        work=f"{ITEMS:,} entries a call, {CALLS} calls a block, over TLS",
        rounds=SHORT_ROUNDS if short else ROUNDS,
        blocks_beside=BLOCKS_BESIDE,
    )
    with in_environment() as stub:
        users = [ring.follower_of(edge) for edge in stub_data.edges(ITEMS)]
        items = stub_data.items(stub_data.entry(ITEMS), users)
        writers = {
            "Fanfold": _ours(names.LIBCURL),
            "boto3 batch_writer": clients.batch_writer(items),
        }
        if not short:
            writers |= {
                f"boto3 client, {THREADS} threads": clients.threads(items, THREADS),
                "PynamoDB": pynamo.writer(items),
                "Fanfold, transport=boto3": _ours(names.BOTO3),
            }
        libcurl, batch_writer, *beside = (_block(name, write) for name, write in writers.items())
        for each in (libcurl, batch_writer, *beside):
            check(stub, each.block, items)
        return rivalry.result(libcurl, batch_writer, beside, stub.pinned)


def _ours(transport: str) -> Write:
    settings = replace(stub_data.SETTINGS, transport=transport)
    return ours.writer(product.transport(settings), ITEMS)


def _block(name: str, write: Write) -> Contestant:
    def block() -> None:
        for _ in range(CALLS):
            write()

    return Contestant(name, block, units=ITEMS * CALLS)


def check(stub: Stub, block: Write, items: list[dict[str, Any]]) -> None:
    """Raise `RuntimeError` unless a block writes all of the items and no others."""
    stub.written()
    block()
    entries, found = stub.items()
    if entries != ITEMS * CALLS or found != sorted(items, key=lambda item: item["user_id"]["S"]):
        raise RuntimeError("What was written is not what the product writes.")
