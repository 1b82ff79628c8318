"""The model of SQS against moto and the local engine: the same small programs, step by step.

Order, message ids and receipt handles differ between engines, so the tests compare what a worker
sees: bodies, counts, and the errors of wrong calls.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from fanfold_cli.aws import LocalEndpoint
from proof.model.clock import Clock
from proof.model.sqs import client as sqs
from tests.compat.engines import MINISTACK, MOTO, client_of

VISIBILITY_SECONDS = 30
MAX_RECEIVES = 2
# The wait is longer than the delay, even on a busy machine.
DELAY_SECONDS, WAIT_SECONDS = 1, 1.6


@dataclass
class Engine:
    """A client, a queue and its dead-letter queue, how time passes, and what the program saw."""

    client: Any
    url: str
    dlq_url: str
    wait: Callable[[float], None]
    seen: list[Any] = field(default_factory=list)

    def note(self, call: Callable[[], Any]) -> None:
        """Note the result of a call, or the error that it raises."""
        try:
            self.seen.append(call())
        except ClientError as error:
            self.seen.append(type(error).__name__)

    def send(self, body: str, **options: Any) -> None:
        self.client.send_message(QueueUrl=self.url, MessageBody=body, **options)

    def receive(self, url: str | None = None, **options: Any) -> list[Any]:
        """Up to ten messages, in the order of their bodies."""
        answer = self.client.receive_message(
            QueueUrl=url or self.url,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
            **options,
        )
        return sorted(answer.get("Messages", []), key=lambda message: str(message["Body"]))

    def bodies(self, url: str | None = None) -> list[tuple[str, str]]:
        """Body and receive count of each received message."""
        return [
            (message["Body"], message["Attributes"]["ApproximateReceiveCount"])
            for message in self.receive(url)
        ]

    def show_again(self, message: Any) -> None:
        self.client.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
        )

    def batch(self, entries: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
        answer = self.client.send_message_batch(QueueUrl=self.url, Entries=entries)
        sent, failed = answer.get("Successful", []), answer.get("Failed", [])
        return sorted(each["Id"] for each in sent), sorted(each["Id"] for each in failed)

    def counts(self) -> list[str]:
        names = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ]
        answer = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return [answer["Attributes"][name] for name in names]


def a_message_is_received_hidden_and_deleted(engine: Engine) -> None:
    engine.send("one")
    (message,) = engine.receive()
    attributes = message["Attributes"]
    expected = {"SentTimestamp", "ApproximateFirstReceiveTimestamp", "ApproximateReceiveCount"}
    engine.note(lambda: (message["Body"], message["MD5OfBody"], expected <= set(attributes)))
    engine.note(engine.bodies)
    engine.client.delete_message(QueueUrl=engine.url, ReceiptHandle=message["ReceiptHandle"])
    engine.note(engine.counts)


def a_message_that_is_received_too_often_is_a_dead_letter(engine: Engine) -> None:
    engine.send("one")
    for _ in range(MAX_RECEIVES):
        (message,) = engine.receive()
        engine.show_again(message)
    engine.note(engine.bodies)
    engine.note(lambda: [body for body, _ in engine.bodies(engine.dlq_url)])
    engine.note(engine.counts)


def a_delayed_message_waits(engine: Engine) -> None:
    engine.send("late", DelaySeconds=DELAY_SECONDS)
    engine.send("now")
    engine.note(engine.counts)
    engine.note(engine.bodies)
    engine.wait(WAIT_SECONDS)
    engine.note(engine.bodies)


def a_batch_sends_each_entry(engine: Engine) -> None:
    entries = [{"Id": f"e{number}", "MessageBody": f"body {number}"} for number in range(10)]
    engine.note(lambda: engine.batch(entries))
    engine.note(engine.bodies)


def a_wrong_batch_is_refused_whole(engine: Engine) -> None:
    entry = {"Id": "a", "MessageBody": "x"}
    engine.note(lambda: engine.batch([]))
    engine.note(lambda: engine.batch([entry, entry]))
    engine.note(lambda: engine.batch([{**entry, "Id": f"e{number}"} for number in range(11)]))
    engine.note(engine.counts)


def a_group_and_attributes_come_with_the_message(engine: Engine) -> None:
    reason = {"reason": {"DataType": "String", "StringValue": "because"}}
    engine.send("one", MessageGroupId="ada", MessageAttributes=reason)
    (message,) = engine.receive()
    engine.note(lambda: message["Attributes"].get("MessageGroupId"))
    engine.note(lambda: message["MessageAttributes"]["reason"]["StringValue"])


def a_queue_or_handle_that_is_not_there_is_refused(engine: Engine) -> None:
    nowhere = engine.url + "-nowhere"
    engine.note(lambda: engine.client.send_message(QueueUrl=nowhere, MessageBody="x"))
    engine.note(
        lambda: engine.client.delete_message(QueueUrl=engine.url, ReceiptHandle="not a handle")
    )


PROGRAMS = (
    a_message_is_received_hidden_and_deleted,
    a_message_that_is_received_too_often_is_a_dead_letter,
    a_delayed_message_waits,
    a_batch_sends_each_entry,
    a_wrong_batch_is_refused_whole,
    a_group_and_attributes_come_with_the_message,
    a_queue_or_handle_that_is_not_there_is_refused,
)


@contextmanager
def on_model() -> Iterator[Engine]:
    clock = Clock()
    queues = sqs.Queues(clock)
    url, dlq_url = queues.create_with_dlq(
        "Work", max_receives=MAX_RECEIVES, visibility_seconds=VISIBILITY_SECONDS
    )
    yield Engine(sqs.Client(queues), url, dlq_url, clock.advance)


@contextmanager
def on_service(engine: LocalEndpoint | None) -> Iterator[Engine]:
    client = client_of(engine, "sqs")
    name = f"work-{uuid.uuid4().hex[:8]}"
    dlq_url = client.create_queue(QueueName=f"{name}-dlq")["QueueUrl"]
    about = client.get_queue_attributes(QueueUrl=dlq_url, AttributeNames=["QueueArn"])
    redrive = {
        "deadLetterTargetArn": about["Attributes"]["QueueArn"],
        "maxReceiveCount": MAX_RECEIVES,
    }
    attributes = {
        "VisibilityTimeout": str(VISIBILITY_SECONDS),
        "RedrivePolicy": json.dumps(redrive),
    }
    url = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    yield Engine(client, url, dlq_url, time.sleep)


def seen_on(engine: Engine, program: Callable[[Engine], None]) -> list[Any]:
    program(engine)
    return engine.seen


@pytest.mark.parametrize(
    "name", [MOTO, pytest.param(MINISTACK, marks=[pytest.mark.slow, pytest.mark.network])]
)
def test_the_model_of_sqs_answers_as_the_engine_does(
    name: str, request: pytest.FixtureRequest
) -> None:
    endpoint = request.getfixturevalue(name) if name == MINISTACK else None
    for program in PROGRAMS:
        with on_model() as model:
            expected = seen_on(model, program)
        assert expected
        with ExitStack() as ends:
            if endpoint is None:
                ends.enter_context(mock_aws())
            engine = ends.enter_context(on_service(endpoint))
            assert seen_on(engine, program) == expected, program.__name__
