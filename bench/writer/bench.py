"""What one written entry costs in CPU, beside boto3's batch_writer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench import clients, stub_data
from bench.endpoint import Stub, in_environment
from bench.figures import Bars, Figure, Result, Row
from bench.paired import Contestant, alone, compare
from bench.progress import with_progress
from bench.writer import ours, pynamo
from fanfold import names
from fanfold.follows import ring
from fanfold.settings import Settings
from functions import _clients as product

ITEMS = 2_500  # a call, which are 100 batches
CALLS = 4  # a block: 0.6 s of batch_writer, long enough to be measured
ROUNDS, SHORT_ROUNDS = 10, 3
BLOCKS_BESIDE = 3
THREADS = 16
TARGET = 35.0

Write = Callable[[], None]


def run(*, short: bool) -> Result:
    """Compare the writers over the same items."""
    with in_environment() as stub:
        users = [ring.follower_of(edge) for edge in stub_data.edges(ITEMS)]
        items = stub_data.items(stub_data.entry(ITEMS), users)
        libcurl = _block("Fanfold", ours.writer(product.transport(_speaking(names.LIBCURL)), ITEMS))
        batch_writer = _block("boto3 batch_writer", clients.batch_writer(items))
        beside = (
            []
            if short
            else [
                _block(f"boto3 client, {THREADS} threads", clients.threads(items, THREADS)),
                _block("PynamoDB", pynamo.writer(items)),
                _block(
                    "Fanfold, transport=boto3",
                    ours.writer(product.transport(_speaking(names.BOTO3)), ITEMS),
                ),
            ]
        )
        for each in (libcurl, batch_writer, *beside):
            check(stub, each.block, items)
        found = compare(
            libcurl, batch_writer, rounds=SHORT_ROUNDS if short else ROUNDS, what="writer"
        )
        micros = {"Fanfold": 1e6 * found.ours, "boto3 batch_writer": 1e6 * found.theirs}
        for each in with_progress("writer, beside it", beside):
            micros[each.name] = 1e6 * alone(each, blocks=BLOCKS_BESIDE)
    return Result(
        figures=[
            Figure(
                name="writer.vs_batch_writer",
                value=found.ratio,
                target=TARGET,
                unit="x",
                better="higher",
                against="CPU per entry of boto3's Table.batch_writer",
            )
        ],
        rows=[Row(name, value, "µs", "of CPU per entry") for name, value in micros.items()],
        setting={
            "interval": found.interval,
            "work": f"{ITEMS:,} entries a call, {CALLS} calls a block, over TLS",
            "pinned": stub.pinned,
        },
        chart=Bars(title="CPU per written entry", unit="µs", bars=micros),
    )


def _speaking(transport: str) -> Settings:
    return replace(stub_data.SETTINGS, transport=transport)


def _block(name: str, write: Write) -> Contestant:
    def block() -> None:
        for _ in range(CALLS):
            write()

    return Contestant(name, block, units=ITEMS * CALLS)


def check(stub: Stub, block: Write, items: list[dict[str, Any]]) -> None:
    """See that a block wrote all of the items and no others; raises `RuntimeError` if not."""
    stub.written()
    block()
    entries, found = stub.items()
    if entries != ITEMS * CALLS or found != sorted(items, key=lambda item: item["user_id"]["S"]):
        raise RuntimeError("What was written is not what the product writes.")
