"""Standard queues: delivery at least once, in any order, until the retention is over."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from proof.model.clock import Clock
from proof.model.sqs.client import Client, Queues
from proof.model.sqs.messages import MAX_MESSAGE_BYTES
from proof.model.sqs.queues import Hooks, Redrive


class Model:
    """One queue with its dead-letter queue, and a client."""

    def __init__(self, hooks: Hooks | None = None, *, max_receives: int = 3) -> None:
        self.clock = Clock()
        self.queues = Queues(self.clock, hooks or Hooks())
        self.url, self.dlq = self.queues.create_with_dlq("Bulk", max_receives=max_receives)
        self.client = Client(self.queues)

    def send(self, *bodies: str, **more: Any) -> dict[str, Any]:
        entries = [
            {"Id": str(number), "MessageBody": body, **more} for number, body in enumerate(bodies)
        ]
        return self.client.send_message_batch(QueueUrl=self.url, Entries=entries)

    def receive(self, count: int = 10, **more: Any) -> list[dict[str, Any]]:
        more = {"QueueUrl": self.url, "AttributeNames": ["All"], **more}
        answer = self.client.receive_message(MaxNumberOfMessages=count, **more)
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    def bodies(self, count: int = 10, **more: Any) -> list[str]:
        return [message["Body"] for message in self.receive(count, **more)]

    def delete(self, message: dict[str, Any]) -> None:
        handle = message["ReceiptHandle"]
        self.client.delete_message(QueueUrl=self.url, ReceiptHandle=handle)

    def counts(self) -> tuple[int, int, int]:
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        names = ("", "NotVisible", "Delayed")
        waiting, hidden, delayed = (
            int(found["Attributes"][f"ApproximateNumberOfMessages{name}"]) for name in names
        )
        return waiting, hidden, delayed


def test_the_handle_of_an_earlier_receive_deletes_nothing() -> None:
    model = Model()
    model.send("a")
    (early,) = model.receive()
    model.clock.advance(30)
    (late,) = model.receive()
    model.delete(early)
    assert model.counts() == (0, 1, 0)
    with pytest.raises(model.client.exceptions.ReceiptHandleIsInvalid):
        model.delete({"ReceiptHandle": "nonsense"})
    for _ in range(2):
        model.delete(late)
    assert model.counts() == (0, 0, 0)


def test_a_dead_letter_has_its_first_time_by_which_it_expires_and_the_name_of_its_queue() -> None:
    clock = Clock()
    queues = Queues(clock)
    dlq = queues.create("Dlq", retention_seconds=100)
    url = queues.create("Short", retention_seconds=60, redrive=Redrive(queues.queue(dlq), 1))
    client = Client(queues)
    client.send_message(QueueUrl=url, MessageBody="a")
    client.receive_message(QueueUrl=url)
    clock.advance(50)
    assert "Messages" not in client.receive_message(QueueUrl=url)
    clock.advance(49)
    dead = client.receive_message(QueueUrl=dlq, AttributeNames=["All"])["Messages"][0]["Attributes"]
    assert dead["SentTimestamp"] == str(clock.start_ms)
    assert dead["DeadLetterQueueSourceArn"].endswith(":Short")
    clock.advance(1)
    assert queues.queue(dlq).messages() == []


def test_a_duplicate_may_come_after_the_message_was_deleted() -> None:
    model = Model(Hooks(is_duplicated=lambda _random, _queue, message: message.receives == 1))
    model.send("a")
    (message,) = model.receive()
    model.delete(message)
    (copy,) = model.receive()
    assert copy["MessageId"] == message["MessageId"]
    model.delete(copy)
    model.clock.advance(1_000)
    assert model.bodies() == []


def test_a_batch_succeeds_even_if_entries_fail() -> None:
    model = Model(Hooks(fail=lambda _queue, _entries: [1]))
    answer = model.send("a", "b", "c")
    assert [entry["Id"] for entry in answer["Successful"]] == ["0", "2"]
    (failed,) = answer["Failed"]
    assert (failed["Id"], failed["SenderFault"]) == ("1", False)
    assert sorted(model.bodies()) == ["a", "c"]


@pytest.mark.parametrize(
    ("in_flight", "received"), [(30, ["quiet", "noise"]), (20, ["noise", "noise"])]
)
def test_quiet_groups_go_before_a_group_with_30_in_flight(
    in_flight: int, received: list[str]
) -> None:
    model = Model(Hooks(window=1))
    for _ in range(5):
        model.send(*["noise"] * 10, MessageGroupId="celebrity")
    for _ in range(in_flight // 10):
        model.receive()
    model.send("quiet", MessageGroupId="neighbour")
    assert [*model.bodies(1), *model.bodies(1)] == received


HALVES = [{"Id": each, "MessageBody": "x" * (MAX_MESSAGE_BYTES // 2 + 1)} for each in "ab"]
ATTRIBUTES = {f"a{number}": {"DataType": "String", "StringValue": "v"} for number in range(11)}


@pytest.mark.parametrize(
    ("call", "request_", "code"),
    [
        ("send_message", {"MessageBody": "x" * (MAX_MESSAGE_BYTES + 1)}, "InvalidParameterValue"),
        ("send_message", {"MessageBody": "a", "DelaySeconds": 901}, "InvalidParameterValue"),
        ("send_message", {"MessageBody": "\x1b[2J"}, "InvalidMessageContents"),
        ("send_message", {"MessageBody": ""}, "MissingParameter"),
        (
            "send_message",
            {"MessageBody": "a", "MessageAttributes": ATTRIBUTES},
            "InvalidParameterValue",
        ),
        ("send_message_batch", {"Entries": HALVES}, "AWS.SimpleQueueService.BatchRequestTooLong"),
    ],
)
def test_what_sqs_would_not_take_is_refused(call: str, request_: Any, code: str) -> None:
    model = Model()
    with pytest.raises(ClientError) as caught:
        getattr(model.client, call)(QueueUrl=model.url, **request_)
    assert caught.value.response["Error"]["Code"] == code
    assert model.counts() == (0, 0, 0)


def test_a_message_that_sqs_delivers_late_counts_in_the_age_of_the_oldest() -> None:
    model = Model()
    queue = model.queues.queue(model.url)
    queue.hooks.late_seconds = lambda _queue, _message: 600.0
    model.client.send_message(QueueUrl=model.url, MessageBody="a", DelaySeconds=60)
    model.clock.advance(59)
    assert queue.age_of_oldest() == 0
    model.clock.advance(600)
    assert model.bodies() == []
    assert queue.age_of_oldest() == pytest.approx(659)
    model.clock.advance(1)
    assert model.bodies() == ["a"]
