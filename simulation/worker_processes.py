"""`python -m simulation.worker_processes`: the lanes' workers, which may be killed.

In the place of an engine's poller, which does one thing at a time. Every worker is a process, a
warm Lambda environment: it receives one message, hands it to the real door as Lambda would, and
deletes it if the door did not fail it. While a worker is at a message it may be killed, at random;
another takes its place, and the message comes again. Some messages are sent a second time.

The surroundings are those of the deployed function: its settings, and `AWS_ENDPOINT_URL` and
`AWS_ENDPOINT_URL_DYNAMODB`. It ends with its standard input, and prints what it counted, as JSON.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from random import Random
from typing import IO, Any

from aws_model.lambda_events import Context, sqs_event
from fanfold import clock, names
from fanfold.aws import boto
from fanfold.aws.retries import is_transient
from fanfold.settings import Settings

LANES = (names.EXPRESS, names.BULK)
FORKING = multiprocessing.get_context("fork")
# How long a worker rests when no lane had a message.
IDLE_SECONDS = 0.1
# How long the parent waits at most before it looks at everything again.
LOOK_SECONDS = 0.5
# For a runner that is asked to end: it kills its workers, and tells what it counted.
END_SECONDS = 10.0
# Within which a worker is killed: about what a segment of a thousand takes.
KILL_SECONDS = 0.5
# What a copy is known by, so that it is not copied again.
COPY: Any = {"copy": {"DataType": "String", "StringValue": "yes"}}
BEGUN, ENDED, COPIED, FAILED = "begun", "ended", "copied", "failed"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a run goes."""

    workers: int = 4
    seed: int = 0
    kills: float = 0.0  # which part of the invocations is killed, unless it is over by then
    copies: float = 0.0  # which part of the messages is sent twice


@contextmanager
def running(plan: Plan, environment: Mapping[str, str], *, log: IO[Any]) -> Iterator[Counter[str]]:
    """A runner in a process of its own; what it counted is there when it has ended."""
    command = [sys.executable, "-m", "simulation.worker_processes"]
    for name, value in asdict(plan).items():
        command += [f"--{name}", str(value)]
    counted: Counter[str] = Counter()
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
    )
    try:
        yield counted
        told, _ = process.communicate(timeout=END_SECONDS)  # which ends its standard input
        counted.update(json.loads(told))
    finally:
        process.kill()  # its workers notice
        process.communicate()


# A worker


def _work(tell: Connection, plan: Plan) -> None:
    """Take messages of the lanes, until killed."""
    # What the door logs goes where the runner logs: its standard output is for the count.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    from functions import deliver  # its libraries are the parent's, its connections its own

    lanes = [_Lane(lane, deliver.settings, plan) for lane in LANES]
    parent = multiprocessing.parent_process()
    assert parent is not None
    while parent.is_alive():
        taken = [lane.take_one(deliver.handler, tell) for lane in lanes]
        if not any(taken):
            clock.sleep(IDLE_SECONDS)


@dataclass(frozen=True)
class _Lane:
    queue: names.Queue
    settings: Settings
    plan: Plan

    @property
    def url(self) -> str:
        return str(getattr(self.settings, self.queue.url_setting))

    def take_one(self, handler: Any, tell: Connection) -> bool:
        """Receive a message, hand it over, delete it unless it failed; False if there was none."""
        messages = self._receive()
        for message in messages:
            tell.send(BEGUN)
            if self._is_sent_twice(message):
                boto.sqs().send_message(
                    QueueUrl=self.url, MessageBody=message["Body"], MessageAttributes=COPY
                )
                tell.send(COPIED)
            event = sqs_event(self.url.rpartition("/")[2], [message])
            context = Context(clock.monotonic() + names.DELIVER.seconds, clock.monotonic)
            answer = handler(event, context)
            if answer["batchItemFailures"]:
                tell.send(FAILED)
            else:
                self._delete(message["ReceiptHandle"])
            tell.send(ENDED)
        return bool(messages)

    def _receive(self) -> list[Any]:
        try:
            received = boto.sqs().receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=1,
                AttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
        except Exception as error:
            if not is_transient(error):
                raise
            return []  # what it would have brought is shown again
        messages: list[Any] = list(received.get("Messages", []))
        return messages

    def _delete(self, handle: str) -> None:
        sqs = boto.sqs()
        try:
            sqs.delete_message(QueueUrl=self.url, ReceiptHandle=handle)
        except sqs.exceptions.ReceiptHandleIsInvalid:
            pass  # it was shown to another worker since; SQS would not mind
        except Exception as error:
            if not is_transient(error):
                raise  # else it comes again

    def _is_sent_twice(self, message: Any) -> bool:
        """Drawn from the seed and what the message says, the same in every run."""
        if message["Attributes"]["ApproximateReceiveCount"] != "1":
            return False
        if message.get("MessageAttributes", {}).keys() >= COPY.keys():
            return False
        return Random(f"{self.plan.seed} {message['Body']}").random() < self.plan.copies


# The parent of the workers


class _Worker:
    """A process, and when it is to be killed, if it is at a message."""

    def __init__(self, plan: Plan) -> None:
        self.hear, tell = FORKING.Pipe(duplex=False)
        self.process: ForkProcess = FORKING.Process(target=_work, args=(tell, plan), daemon=True)
        self.process.start()
        tell.close()
        self.dies_at = math.inf

    def kill(self) -> None:
        """End it as the system would: it has no say in it."""
        self.process.kill()
        self.process.join()
        self.hear.close()


@dataclass
class Runner:
    """Keeps so many workers at work, and kills some."""

    plan: Plan
    counted: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = Random(self.plan.seed)
        self._workers = [_Worker(self.plan) for _ in range(self.plan.workers)]

    def run(self, until: Connection) -> None:
        """Run until `until` can be read from, or is closed."""
        try:
            while not self._turn(until):
                pass
        finally:
            for worker in self._workers:
                worker.kill()

    def _turn(self, until: Connection) -> bool:
        next_kill = min(worker.dies_at for worker in self._workers)
        seconds = max(0.0, min(LOOK_SECONDS, next_kill - clock.monotonic()))
        if until in wait([until, *(worker.hear for worker in self._workers)], seconds):
            return True
        for number, worker in enumerate(self._workers):
            if not self._listen(worker) or self._dies(worker):
                worker.kill()
                self._workers[number] = _Worker(self.plan)
        return False

    def _listen(self, worker: _Worker) -> bool:
        """Hear what the worker says; False if it is gone."""
        now = clock.monotonic()
        while worker.hear.poll():
            try:
                said = worker.hear.recv()
            except EOFError:
                break
            self.counted[said] += 1
            if said == BEGUN:
                if self._random.random() < self.plan.kills:
                    worker.dies_at = now + self._random.uniform(0.0, KILL_SECONDS)
            elif said == ENDED:
                worker.dies_at = math.inf
        if worker.process.is_alive():
            return True
        self.counted["ended by itself"] += 1
        return False

    def _dies(self, worker: _Worker) -> bool:
        """Whether its hour has come."""
        if clock.monotonic() < worker.dies_at:
            return False
        self.counted["killed"] += 1
        return True


def _load_libraries() -> None:
    """Load once, for all workers to come, what the door takes long to load.

    Not the door itself: it makes handles of libcurl, which no two processes may share.
    """
    import functions._worker  # noqa: F401

    boto.dynamodb()
    boto.sqs()


def main() -> int:
    """Run until the standard input ends, and print what was counted."""
    parser = argparse.ArgumentParser(
        prog="python -m simulation.worker_processes", description=__doc__
    )
    for each in fields(Plan):
        parser.add_argument(f"--{each.name}", type=type(each.default), default=each.default)
    plan = Plan(**vars(parser.parse_args()))
    _load_libraries()
    runner = Runner(plan)
    runner.run(Connection(sys.stdin.fileno(), writable=False))
    print(json.dumps(runner.counted), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
