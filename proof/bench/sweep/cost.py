"""What one run of SWEEP costs: its door, by boto3 over HTTP, to the model in another process."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

from fanfold import names, times
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import Fanout
from proof.bench import cores, stub_data
from proof.model.clock import Clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb.capacity import READ, WRITE, Meter
from proof.model.dynamodb.database import Database
from proof.model.dynamodb.partitions import Key, Row
from proof.model.dynamodb.values import size_of_item
from proof.model.endpoint import Answer, Backend, Request, answering_from, serving
from proof.model.lambda_events import Context
from proof.model.sqs import client as sqs
from proof.model.sqs.client import Queues
from proof.model.sqs.queues import Hooks
from proof.simulation.stage import stores
from proof.simulation.world import lambdas
from proof.simulation.world.schemas import schema_of

TEMPLATE = "00000000-0000-4000-8000-000000000000"
FANOUT = "90570000-0000-4000-8000-{:012d}"
# Old enough to be looked at, and for a fan-out that nobody has planned, to be asked about.
AGE_MS = 10 * 60 * 1000
DAY_SECONDS = 24 * 60 * 60


def peak_mb() -> float:
    """The peak of this process's resident memory, in MB."""
    if sys.platform == "linux":  # getrusage counts the parent's before exec, too
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


@dataclass(frozen=True)
class Ledgers:
    """What the ledger has: open fan-outs of one segment, which wait rightly or are lost."""

    name: str
    open: int
    are_lost: bool = False


@dataclass(frozen=True)
class Cost:
    read_units: float
    write_units: float
    calls: int
    wall: float
    cpu: float
    peak_mb: float


def costs(ledgers: Ledgers) -> Cost:
    """One run, after another one over no fan-outs that connects; in a fresh process."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
        return alone.submit(_measure, ledgers).result()


def _measure(ledgers: Ledgers) -> Cost:
    with _model() as model, contextlib.redirect_stdout(io.StringIO()):  # log lines and metrics
        cores.pin(cores.CLIENT)
        from functions import sweep  # reads the environment as it is imported

        handler: Callable[..., None] = sweep.handler
        _fill(model, replace(ledgers, open=0))
        _run(handler)
        _fill(model, ledgers)
        wall, cpu = time.perf_counter(), time.process_time()
        _run(handler)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        model.send("report")
        units, calls = model.recv()
        return Cost(units[READ], units[WRITE], calls.total(), wall, cpu, peak_mb())


def _run(handler: Callable[..., None]) -> None:
    handler({}, Context(time.monotonic() + names.SWEEP.seconds, time.monotonic))


def _fill(model: Connection, ledgers: Ledgers) -> None:
    model.send((ledgers.open, ledgers.are_lost, time.time_ns() // 1_000_000))
    model.recv()


@contextmanager
def _model() -> Iterator[Connection]:
    """The model behind HTTP, in a process of its own, and the environment that leads to it."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs,))
    process.start()
    try:
        # Without event source mappings: asking for their state is three calls to Lambda more.
        settings = replace(
            lambdas.settings(), publish_mapping="", express_mapping="", bulk_mapping=""
        )
        os.environ.pop("AWS_PROFILE", None)
        os.environ.update(
            settings.to_env(),
            AWS_ACCESS_KEY_ID="ASIAIOSFODNN7EXAMPLE",
            AWS_SECRET_ACCESS_KEY="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
            AWS_REGION=stub_data.REGION,
            AWS_DEFAULT_REGION=stub_data.REGION,
            AWS_CONFIG_FILE=os.devnull,
            AWS_ENDPOINT_URL=ours.recv(),
            POWERTOOLS_SERVICE_NAME="fanfold",
        )
        yield ours
    finally:
        ours.send(None)
        process.join()


def _serve(parent: Connection) -> None:
    cores.pin(cores.STUB)
    tables = _Tables()
    with serving(tables.answer) as url:
        parent.send(url)
        while (asked := parent.recv()) is not None:
            if asked == "report":
                units: Counter[str] = Counter()
                for (_, kind), count in tables.meter.units.items():
                    units[kind] += count
                parent.send((units, tables.calls))
            else:
                tables.fill(*asked)
                parent.send("filled")


class _Tables:
    """The model with a ledger that can be filled, and counts of what it was asked."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._backend: Backend = lambda _request: Answer(500, b"{}")

    def answer(self, request: Request) -> Answer:
        self.calls[request.operation] += 1
        return self._backend(request)

    def fill(self, count: int, are_lost: bool, now_ms: int) -> None:
        """Begin anew with this number of open fan-outs, and count from 0."""
        clock, self.meter = Clock(start_ms=now_ms), Meter()
        database, queues = Database(clock), Queues(clock, Hooks(random=Random(0)))
        database.create(*(schema_of(table) for table in names.TABLES))
        for queue in names.QUEUES:
            queues.create_with_dlq(queue.name, max_receives=queue.max_receives)
        client: Any = dynamodb.Client(database, validates=False)
        self._open_fanouts(database, stores(client).ledger, count, are_lost, now_ms)
        database.meter = self.meter
        self._backend = answering_from(client, sqs.Client(queues, validates=False))
        self.calls.clear()

    def _open_fanouts(
        self, database: Database, ledger: Ledger, count: int, are_lost: bool, now_ms: int
    ) -> None:
        """Copy one row, which the ledger itself writes."""
        accepted_at = times.to_text(now_ms - AGE_MS)
        template = Fanout(
            fanout_id=TEMPLATE,
            publisher_id="ada00000-0000-4000-8000-000000000001",
            sort_key=f"{accepted_at}#{TEMPLATE}",
            accepted_at=accepted_at,
            expires_at=now_ms // 1000 + 30 * DAY_SECONDS,
        )
        ledger.open(template)
        if not are_lost:
            ledger.plan(template, segments=1, followers=1, level=0, now=times.to_text(now_ms))
        table = database.table(names.FANOUTS.name)
        key = Key(TEMPLATE, ())
        row = table.get(key)
        assert row is not None
        table.change(key, None)
        for number in range(count):
            fanout_id = FANOUT.format(number)
            item = {
                name: (kind, content.replace(TEMPLATE, fanout_id) if kind == "S" else content)
                for name, (kind, content) in row.item.items()
            }
            table.change(Key(fanout_id, ()), Row(item, size_of_item(item)))
