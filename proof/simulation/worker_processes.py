"""`python -m proof.simulation.worker_processes`: PLAN and DELIVER as processes that may be killed.

They replace the local engine's poller, which kills no worker and copies no message. Each is a warm
Lambda environment: it receives a message, invokes the real function, and deletes the message unless
that failed. During an invocation it may be killed; another worker takes its place, and the message
comes again. Some messages are sent a second time.

The environment variables are those of the deployed function, with `AWS_ENDPOINT_URL` and
`AWS_ENDPOINT_URL_DYNAMODB`. It ends with its standard input, and prints its counts as JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from multiprocessing.connection import wait
from multiprocessing.context import ForkProcess
from random import Random
from threading import Timer
from typing import IO, Any

from botocore.exceptions import BotoCoreError, ClientError

from fanfold import clock, names
from fanfold.aws import boto
from fanfold.aws.retries import is_transient
from fanfold_cli import aws
from fanfold_cli.stack import Deployment
from proof.model.lambda_events import Context, sqs_event

QUEUES = (names.PUBLISH, names.EXPRESS, names.BULK)
FORKING = multiprocessing.get_context("fork")
# The pause of a worker when no queue had a message.
IDLE_SECONDS = 0.1
# Time for the runner to kill its workers and print its counts.
END_SECONDS = 10.0
# A worker is killed within this time, about the duration of a segment of 1,000 followers.
KILL_SECONDS = 0.5
# Marks a copy, so that it is not copied again.
COPY: Any = {"copy": {"DataType": "String", "StringValue": "yes"}}


@dataclass(frozen=True, kw_only=True)
class Plan:
    workers: int = 4
    seed: int = 0
    kills: float = 0.0  # share of the invocations that are killed, unless they end before
    spared: int = 0  # receives of a message after which nobody is killed; 0 for never
    within: float = KILL_SECONDS  # a killed one dies within these seconds, at a random time
    copies: float = 0.0  # share of the messages that are sent twice


@contextmanager
def running(plan: Plan, environment: Mapping[str, str], *, log: IO[Any]) -> Iterator[Counter[str]]:
    """Run the workers of a plan; the counts ("killed", "copied") are filled in at the end."""
    command = [sys.executable, "-P", "-m", "proof.simulation.worker_processes"]
    for name, value in asdict(plan).items():
        command += [f"--{name}", str(value)]
    counts: Counter[str] = Counter()
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
    )
    try:
        yield counts
        printed, _ = process.communicate(timeout=END_SECONDS)  # closes its standard input
        counts.update(json.loads(printed))
    finally:
        process.kill()  # its workers notice
        process.communicate()


def stop_polling(stack: Deployment, *, visibility_seconds: int) -> None:
    """Stop the local engine's polling of the queues of fan-outs.

    The visibility timeout bounds how long a message stays hidden after a killed worker or a lost
    answer; as deployed, six minutes. It must be longer than an invocation, so that a slow machine
    does not make two workers handle a message.
    """
    sqs, lambda_ = stack.client("sqs"), stack.client("lambda")
    for each in QUEUES:
        url = stack.output(each.url_output)
        attributes = {"VisibilityTimeout": str(visibility_seconds)}
        sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes)
        queue = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        found = lambda_.list_event_source_mappings(EventSourceArn=queue["QueueArn"])
        for mapping in found["EventSourceMappings"]:
            lambda_.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)


def environment(stack: Deployment, dynamodb: str) -> dict[str, str]:
    """The deployed worker's environment variables, with another endpoint for DynamoDB."""
    found = stack.client("lambda").list_functions()["Functions"]
    variables: list[dict[str, Any]] = [
        function["Environment"]["Variables"]
        for function in found
        if function["Handler"].startswith("functions.deliver.")
    ]
    assert len(variables) == 1
    assert stack.endpoint is not None
    return {
        **aws.local_environment(stack.endpoint),
        **variables[0],
        "AWS_ENDPOINT_URL_DYNAMODB": dynamodb,
    }


# A worker


def _work(plan: Plan, count_copy: Callable[[], None]) -> None:
    """Handle messages of the queues until killed."""
    # The function logs to the runner's standard error; its standard output is for the counts.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    modules = doors()
    queues = [_Queue(each, modules[each.consumer], plan, count_copy) for each in QUEUES]
    runner = multiprocessing.parent_process()
    assert runner is not None
    while runner.is_alive():
        handled = [queue.handle_one() for queue in queues]
        if not any(handled):
            clock.sleep(IDLE_SECONDS)


@dataclass(frozen=True)
class Source:
    """A queue from which a worker receives messages one by one, for the real function."""

    queue: names.Queue
    door: Any  # the function's module

    @property
    def url(self) -> str:
        return str(getattr(self.door.settings, self.queue.url_setting))

    def receive(self) -> list[Any]:
        """A message, or none."""
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
            return []  # what was received becomes visible again
        messages: list[Any] = list(received.get("Messages", []))
        return messages

    def invoke(self, message: Any) -> bool:
        """Call the function, and delete the message if that succeeded; return whether it did."""
        event = sqs_event(self.url.rpartition("/")[2], [message])
        context = Context(clock.monotonic() + self.queue.consumer.seconds, clock.monotonic)
        if self.door.handler(event, context)["batchItemFailures"]:
            return False
        self._delete(message["ReceiptHandle"])
        return True

    def show(self, handle: str, *, after_seconds: int) -> None:
        """Make the message visible again before its timeout.

        It has no effect if the message is deleted meanwhile, or the engine is too busy to answer.
        """
        with suppress(ClientError, BotoCoreError):
            boto.sqs().change_message_visibility(
                QueueUrl=self.url, ReceiptHandle=handle, VisibilityTimeout=after_seconds
            )

    def _delete(self, handle: str) -> None:
        sqs = boto.sqs()
        try:
            sqs.delete_message(QueueUrl=self.url, ReceiptHandle=handle)
        except sqs.exceptions.ReceiptHandleIsInvalid:
            pass  # another worker has received it since; SQS would accept the handle
        except Exception as error:
            if not is_transient(error):
                raise  # after a transient error the message comes again


def doors() -> dict[names.Function, Any]:
    """The functions' modules, imported by each worker, because connections must not be shared."""
    from functions import deliver
    from functions import plan as planning

    return {names.PLAN: planning, names.DELIVER: deliver}


def is_copy(message: Mapping[str, Any]) -> bool:
    return bool(message.get("MessageAttributes", {}).keys() & COPY.keys())


@dataclass(frozen=True)
class _Queue(Source):
    plan: Plan
    count_copy: Callable[[], None]

    def handle_one(self) -> bool:
        """Receive and handle a message; False if there was none."""
        messages = self.receive()
        for message in messages:
            # The same message has the same fate in every run with the same seed.
            receives = message["Attributes"]["ApproximateReceiveCount"]
            random = Random(f"{self.plan.seed} {receives} {message['Body']}")
            is_first = receives == "1" and not is_copy(message)
            if is_first and random.random() < self.plan.copies:
                group = message["Attributes"].get("MessageGroupId", "copies")
                boto.sqs().send_message(
                    QueueUrl=self.url,
                    MessageBody=message["Body"],
                    MessageAttributes=COPY,
                    MessageGroupId=group,
                )
                self.count_copy()
            self._suffer(message, random)
        return bool(messages)

    def _suffer(self, message: Any, random: Random) -> None:
        receives, spared = message["Attributes"]["ApproximateReceiveCount"], self.plan.spared
        is_killed = random.random() < self.plan.kills and not 0 < spared <= int(receives)
        seconds = random.uniform(0.0, self.plan.within)
        death = Timer(seconds, self._die, (message["ReceiptHandle"],))
        if is_killed:
            death.start()
        self.invoke(message)
        death.cancel()

    def _die(self, handle: str) -> None:
        """Kill this process; its message is visible again immediately."""
        self.show(handle, after_seconds=0)
        os.kill(os.getpid(), signal.SIGKILL)


# The runner


def _run(plan: Plan, stop: int) -> dict[str, int]:
    """Keep the workers running until the file `stop` can be read from, or ends; return counts."""
    counts: Counter[str] = Counter()
    copies = FORKING.Value("i", 0)

    def count_copy() -> None:
        with copies.get_lock():  # no worker is killed while it copies
            copies.value += 1

    def start() -> ForkProcess:
        process = FORKING.Process(target=_work, args=(plan, count_copy), daemon=True)
        process.start()
        return process

    workers = {process.sentinel: process for process in (start() for _ in range(plan.workers))}
    try:
        while stop not in (ended := wait([stop, *workers])):
            for sentinel in [each for each in workers if each in ended]:
                process = workers.pop(sentinel)
                process.join()
                is_killed = process.exitcode == -signal.SIGKILL
                counts["killed" if is_killed else "ended by itself"] += 1
                replacement = start()
                workers[replacement.sentinel] = replacement
    finally:
        for process in workers.values():
            process.kill()
            process.join()
    return {**counts, "copied": copies.value}


def main() -> int:
    """Run the workers until standard input ends, and print the counts."""
    parser = argparse.ArgumentParser(
        prog="python -m proof.simulation.worker_processes", description=__doc__
    )
    for each in fields(Plan):
        parser.add_argument(f"--{each.name}", type=type(each.default), default=each.default)
    plan = Plan(**vars(parser.parse_args()))
    # Loaded once for all workers. Not the function itself: it makes handles of libcurl, which
    # processes must not share.
    import functions._worker  # noqa: F401

    boto.dynamodb()
    boto.sqs()
    print(json.dumps(_run(plan, sys.stdin.fileno())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
