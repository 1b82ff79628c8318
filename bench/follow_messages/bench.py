"""How many `follow.added` messages a worker of the publish queue handles, in parallel or not."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from random import Random
from statistics import median
from typing import Any

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.database import Database
from aws_model.endpoint import answering_from, late, serving
from aws_model.lambda_events import Context, sqs_event
from aws_model.sqs import client as sqs
from aws_model.sqs.client import Queues
from aws_model.sqs.queues import Hooks
from bench import cores, stub_data
from bench.figures import Bars, Figure, Result, Row
from bench.paired import paired
from bench.progress import with_progress
from fanfold import names
from simulation import lambdas
from simulation.schemas import schema_of

BATCH = names.PUBLISH.batch_size
# About the duration of a call on AWS, in addition to what both ends of loopback take here.
CALL_SECONDS = 0.005
BATCHES, ROUNDS, SHORT_ROUNDS = 10, 5, 2
# Lambda's vCPUs are in proportion to its memory: a whole one at 1,769 MB.
VCPU = 512 / 1769
PUBLISHER = "ada00000-0000-4000-8000-000000000001"
USER = "f0110000-0000-4000-8000-{:012d}"
TARGET = 2.0


@dataclass(frozen=True)
class Took:
    wall: float
    cpu: float


class Worker:
    """The function of the publish queue, and new messages for it."""

    def __init__(self) -> None:
        from functions import plan  # reads the environment as it is imported

        self.plan = plan
        self.side_by_side = plan.MESSAGES
        self.follows = 0

    def handle(self, batches: int, *, threads: Any) -> Took:
        self.plan.MESSAGES = threads
        queue = names.PUBLISH.name
        events = [sqs_event(queue, [self._message() for _ in range(BATCH)]) for _ in range(batches)]
        wall, cpu = time.perf_counter(), time.process_time()
        for event in events:
            answer = self.plan.handler(event, Context())  # type: ignore[arg-type]
            if answer != {"batchItemFailures": []}:
                raise RuntimeError(f"Not all follows were taken: {answer}")
        count = batches * BATCH
        return Took((time.perf_counter() - wall) / count, (time.process_time() - cpu) / count)

    def _message(self) -> dict[str, Any]:
        self.follows += 1
        content = {
            "version": 1,
            "type": "follow.added",
            "user_id": USER.format(self.follows),
            "publisher_id": PUBLISHER,
        }
        return {
            "MessageId": str(self.follows),
            "Body": json.dumps(content),
            "Attributes": {
                "SentTimestamp": str(time.time_ns() // 1_000_000),
                "ApproximateReceiveCount": "1",
            },
        }

    def edges(self) -> int:
        client = self.plan.dynamodb
        pages = client.get_paginator("scan").paginate(
            TableName=self.plan.settings.followers_table, Select="COUNT"
        )
        return sum(page["Count"] for page in pages)


def run(*, short: bool) -> Result:
    """Compare the function with itself without its threads."""
    with _endpoint() as url:
        os.environ.pop("AWS_PROFILE", None)
        os.environ.update(_environment(url))
        worker = Worker()
        took = _compare(worker, rounds=SHORT_ROUNDS if short else ROUNDS)
        if worker.edges() != worker.follows:
            raise RuntimeError(f"{worker.edges()} of {worker.follows} follows have an edge.")
    ours, theirs = ([pair[way] for pair in took] for way in (0, 1))
    found = paired([(a.wall, b.wall) for a, b in took])
    cpu = median(each.cpu for each in ours)
    rates = {"side by side": 1 / found.ours, "one after the other": 1 / found.theirs}
    return Result(
        figures=[
            Figure(
                name="follow_messages.side_by_side",
                value=found.ratio,
                target=TARGET,
                unit="x",
                better="higher",
                against="the same door, one message of its batch after the other",
            )
        ],
        rows=[
            *(Row(name, rate, "follows/s", "of one worker, here") for name, rate in rates.items()),
            Row("CPU, side by side", 1e3 * cpu, "ms", "a follow"),
            Row("CPU, in turn", 1e3 * median(each.cpu for each in theirs), "ms", "a follow"),
            Row("by its CPU", VCPU / cpu, "follows/s", "of one worker with 512 MB (0.29 vCPU)"),
        ],
        setting={
            "interval": found.interval,
            "work": f"batches of {BATCH} new follows of one publisher, {BATCHES} a block",
            "calls": f"{1e3 * CALL_SECONDS:.0f} ms and the way there, to the model",
        },
        chart=Bars(title="Follow messages of one worker", unit="follows/s", bars=rates),
    )


def _compare(worker: Worker, *, rounds: int) -> list[tuple[Took, Took]]:
    """Measure with and without threads, A B B A, after one unmeasured batch each."""
    ways: list[Callable[[int], Took]] = [
        lambda batches: worker.handle(batches, threads=worker.side_by_side),
        lambda batches: worker.handle(batches, threads=None),
    ]
    for way in ways:
        way(1)
    pairs = []
    for _ in with_progress("follow-messages", range(rounds)):
        first = ways[0](BATCHES), ways[1](BATCHES)
        second = ways[1](BATCHES), ways[0](BATCHES)
        pairs += [first, second[::-1]]
    return pairs


def _environment(url: str) -> dict[str, str]:
    """The function's environment variables, with the model in the place of AWS."""
    return {
        **lambdas.settings().to_env(),
        "AWS_ACCESS_KEY_ID": "ASIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "AWS_REGION": stub_data.REGION,
        "AWS_DEFAULT_REGION": stub_data.REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_ENDPOINT_URL": url,
        "POWERTOOLS_SERVICE_NAME": "fanfold",
    }


@contextmanager
def _endpoint() -> Iterator[str]:
    """The model behind HTTP, in a process of its own."""
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    process = spawn.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    try:
        url: str = ours.recv()
        yield url
    finally:
        ours.send("over")
        process.join()


def _serve(parent: Connection) -> None:
    cores.pin(cores.STUB)
    clock = Clock()
    database, queues = Database(clock), Queues(clock, Hooks(random=Random(0)))
    database.create(*(schema_of(table) for table in names.TABLES))
    for queue in names.QUEUES:
        queues.create_with_dlq(queue.name, max_receives=queue.max_receives)
    model = answering_from(
        dynamodb.Client(database, validates=False), sqs.Client(queues, validates=False)
    )
    with serving(late(model, CALL_SECONDS)) as url:
        parent.send(url)
        parent.recv()
