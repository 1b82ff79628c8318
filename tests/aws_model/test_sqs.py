"""Standard queues: delivery at least once, in any order, until the retention is over."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws_model.clock import Clock
from aws_model.sqs.client import Client, Queues
from aws_model.sqs.messages import MAX_MESSAGE_BYTES
from aws_model.sqs.queues import Hooks, Redrive


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


def test_a_received_message_is_hidden_and_comes_back() -> None:
    model = Model()
    model.send("a")
    assert model.bodies() == ["a"]
    assert model.counts() == (0, 1, 0)
    assert model.bodies() == []
    model.clock.advance(30)
    assert model.bodies() == ["a"]


def test_a_deleted_message_never_comes_back() -> None:
    model = Model()
    model.send("a", "b")
    first, second = model.receive()
    model.delete(first)
    model.delete(first)
    entries = [{"Id": "1", "ReceiptHandle": second["ReceiptHandle"]}]
    model.client.delete_message_batch(QueueUrl=model.url, Entries=entries)
    model.clock.advance(1_000)
    assert model.bodies() == []
    assert model.counts() == (0, 0, 0)


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
    assert early["ReceiptHandle"] != late["ReceiptHandle"]


def test_a_message_received_too_often_moves_to_the_dead_letter_queue() -> None:
    model = Model(max_receives=2)
    model.send("poison")
    counts = []
    for _ in range(3):
        counts += [message["Attributes"]["ApproximateReceiveCount"] for message in model.receive()]
        model.clock.advance(30)
    assert counts == ["1", "2"]
    (dead,) = model.receive(QueueUrl=model.dlq)
    assert dead["Body"] == "poison"
    assert dead["Attributes"]["SentTimestamp"] == str(model.clock.start_ms)
    assert dead["Attributes"]["DeadLetterQueueSourceArn"].endswith(":Bulk")


def test_visibility_can_change_only_in_flight() -> None:
    model = Model()
    model.send("a")
    (message,) = model.receive()
    change = {"QueueUrl": model.url, "ReceiptHandle": message["ReceiptHandle"]}
    model.client.change_message_visibility(**change, VisibilityTimeout=100)
    model.clock.advance(99)
    assert model.bodies() == []
    model.client.change_message_visibility(**change, VisibilityTimeout=0)
    with pytest.raises(model.client.exceptions.MessageNotInflight):
        model.client.change_message_visibility(**change, VisibilityTimeout=5)
    assert model.bodies() == ["a"]


def test_retention_counts_from_the_first_sending() -> None:
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
    assert len(queues.queue(dlq).messages()) == 1
    clock.advance(1)
    assert queues.queue(dlq).messages() == []


def test_a_seed_decides_the_order_of_messages() -> None:
    def order(seed: int) -> list[str]:
        model = Model(Hooks(Random(seed)))
        for start in range(0, 40, 10):
            model.send(*(str(number) for number in range(start, start + 10)))
        return [body for _ in range(4) for body in model.bodies()]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1), key=int) == [str(number) for number in range(40)]


def test_a_hook_chooses_the_next_message() -> None:
    model = Model(Hooks(choose=lambda _random, _queue, waiting: len(waiting) - 1))
    model.send("a", "b", "c")
    assert model.bodies() == ["c", "b", "a"]


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


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"MessageBody": "x" * (MAX_MESSAGE_BYTES + 1)}, "InvalidParameterValue"),
        ({"MessageBody": "a", "DelaySeconds": 901}, "InvalidParameterValue"),
        ({"MessageBody": "\x1b[2J"}, "InvalidMessageContents"),
        ({"MessageBody": ""}, "MissingParameter"),
    ],
)
def test_a_wrong_message_is_refused(entry: dict[str, Any], code: str) -> None:
    model = Model()
    with pytest.raises(ClientError) as caught:
        model.client.send_message(QueueUrl=model.url, **entry)
    assert caught.value.response["Error"]["Code"] == code


def test_a_batch_that_is_too_long_is_refused_as_a_whole() -> None:
    model = Model()
    half = "x" * (MAX_MESSAGE_BYTES // 2 + 1)
    with pytest.raises(model.client.exceptions.BatchRequestTooLong):
        model.send(half, half)
    assert model.counts() == (0, 0, 0)


def test_a_purge_deletes_every_message() -> None:
    model = Model()
    model.send("a", "b")
    model.receive(1)
    model.send("c", DelaySeconds=5)
    model.client.purge_queue(QueueUrl=model.url)
    model.clock.advance(100)
    assert (model.bodies(), model.counts()) == ([], (0, 0, 0))


def test_a_message_has_at_most_ten_attributes() -> None:
    model, about = Model(), {"DataType": "String", "StringValue": "v"}
    attributes = {f"a{number}": about for number in range(11)}
    with pytest.raises(model.client.exceptions.ClientError, match=r"attributes \[11\] exceeds"):
        model.client.send_message(QueueUrl=model.url, MessageBody="b", MessageAttributes=attributes)
    del attributes["a0"]
    model.client.send_message(QueueUrl=model.url, MessageBody="b", MessageAttributes=attributes)
    assert model.bodies() == ["b"]


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


def test_tags_are_kept_until_they_are_taken_away() -> None:
    model = Model()
    assert "Tags" not in model.client.list_queue_tags(QueueUrl=model.url)
    model.client.tag_queue(QueueUrl=model.url, Tags={"a": "1", "b": "2"})
    model.client.tag_queue(QueueUrl=model.url, Tags={"b": "3"})
    assert model.client.list_queue_tags(QueueUrl=model.url)["Tags"] == {"a": "1", "b": "3"}
    model.client.untag_queue(QueueUrl=model.url, TagKeys=["a", "missing"])
    assert model.client.list_queue_tags(QueueUrl=model.url)["Tags"] == {"b": "3"}
    with pytest.raises(ClientError, match="Too many tags"):
        model.client.tag_queue(QueueUrl=model.url, Tags={str(n): "" for n in range(50)})
    assert model.client.list_queue_tags(QueueUrl=model.url)["Tags"] == {"b": "3"}


def test_attributes_are_changed_one_by_one() -> None:
    model = Model()
    model.client.set_queue_attributes(
        QueueUrl=model.url, Attributes={"VisibilityTimeout": "7", "MessageRetentionPeriod": "60"}
    )
    found = model.client.get_queue_attributes(QueueUrl=model.url, AttributeNames=["All"])
    assert found["Attributes"]["VisibilityTimeout"] == "7"
    assert found["Attributes"]["MessageRetentionPeriod"] == "60"
    with pytest.raises(ClientError, match="Unknown Attribute"):
        model.client.set_queue_attributes(QueueUrl=model.url, Attributes={"QueueArn": "x"})
