"""Standard queues: at least once, in any order, for as long as they are told."""

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

    def counts(self) -> tuple[int, int, int]:
        found = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        names = ("", "NotVisible", "Delayed")
        waiting, hidden, delayed = (
            int(found["Attributes"][f"ApproximateNumberOfMessages{name}"]) for name in names
        )
        return waiting, hidden, delayed


def test_a_message_is_hidden_while_it_is_worked_on_and_comes_back() -> None:
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
    model.client.delete_message(QueueUrl=model.url, ReceiptHandle=first["ReceiptHandle"])
    model.client.delete_message(QueueUrl=model.url, ReceiptHandle=first["ReceiptHandle"])
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
    model.client.delete_message(QueueUrl=model.url, ReceiptHandle=early["ReceiptHandle"])
    assert model.counts() == (0, 1, 0)
    with pytest.raises(model.client.exceptions.ReceiptHandleIsInvalid):
        model.client.delete_message(QueueUrl=model.url, ReceiptHandle="nonsense")
    assert early["ReceiptHandle"] != late["ReceiptHandle"]


def test_receives_are_counted_and_the_one_too_many_goes_to_the_dead_letters() -> None:
    model = Model(max_receives=2)
    model.send("poison")
    told = []
    for _ in range(3):
        told += [message["Attributes"]["ApproximateReceiveCount"] for message in model.receive()]
        model.clock.advance(30)
    assert told == ["1", "2"]
    (dead,) = model.receive(QueueUrl=model.dlq)
    assert dead["Body"] == "poison"
    assert dead["Attributes"]["SentTimestamp"] == str(model.clock.start_ms)
    assert dead["Attributes"]["DeadLetterQueueSourceArn"].endswith(":Bulk")


def test_a_delayed_message_is_seen_later() -> None:
    model = Model()
    model.send("a", DelaySeconds=10)
    assert (model.bodies(), model.counts()) == ([], (0, 0, 1))
    model.clock.advance(10)
    assert model.bodies() == ["a"]


def test_visibility_can_be_changed_while_in_flight_only() -> None:
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


def test_a_message_is_kept_for_the_retention_from_its_first_sending() -> None:
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


def test_the_same_seed_gives_the_same_order_and_another_one_another() -> None:
    def order(seed: int) -> list[str]:
        model = Model(Hooks(Random(seed)))
        for start in range(0, 40, 10):
            model.send(*(str(number) for number in range(start, start + 10)))
        return [body for _ in range(4) for body in model.bodies()]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1), key=int) == [str(number) for number in range(40)]


def test_a_simulation_may_choose_the_next_message() -> None:
    model = Model(Hooks(choose=lambda _random, _queue, waiting: len(waiting) - 1))
    model.send("a", "b", "c")
    assert model.bodies() == ["c", "b", "a"]


def test_a_copy_may_come_although_the_message_was_deleted() -> None:
    model = Model(Hooks(is_duplicated=lambda _random, _queue, message: message.receives == 1))
    model.send("a")
    (message,) = model.receive()
    model.client.delete_message(QueueUrl=model.url, ReceiptHandle=message["ReceiptHandle"])
    (copy,) = model.receive()
    assert copy["MessageId"] == message["MessageId"]
    model.client.delete_message(QueueUrl=model.url, ReceiptHandle=copy["ReceiptHandle"])
    model.clock.advance(1_000)
    assert model.bodies() == []


def test_entries_of_a_batch_may_fail_and_the_call_succeeds() -> None:
    model = Model(Hooks(fail=lambda _queue, _entries: [1]))
    answer = model.send("a", "b", "c")
    assert [entry["Id"] for entry in answer["Successful"]] == ["0", "2"]
    (failed,) = answer["Failed"]
    assert (failed["Id"], failed["SenderFault"]) == ("1", False)
    assert sorted(model.bodies()) == ["a", "c"]


def test_quiet_groups_go_before_a_noisy_one() -> None:
    model = Model(Hooks(window=1))
    for _ in range(5):
        model.send(*["noise"] * 10, MessageGroupId="celebrity")
    for _ in range(3):
        model.receive()
    model.send("quiet", MessageGroupId="neighbour")
    assert model.bodies(1) == ["quiet"]
    assert model.bodies(1) == ["noise"]


def test_few_in_flight_are_not_noisy() -> None:
    model = Model(Hooks(window=1))
    for _ in range(3):
        model.send(*["first"] * 10, MessageGroupId="celebrity")
    for _ in range(2):
        model.receive()
    model.send("second", MessageGroupId="neighbour")
    assert model.bodies(1) == ["first"]


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"MessageBody": "x" * (MAX_MESSAGE_BYTES + 1)}, "InvalidParameterValue"),
        ({"MessageBody": "a", "DelaySeconds": 901}, "InvalidParameterValue"),
        ({"MessageBody": "\x00"}, "InvalidMessageContents"),
        ({"MessageBody": ""}, "MissingParameter"),
    ],
)
def test_a_message_that_sqs_does_not_take_is_refused(entry: dict[str, Any], code: str) -> None:
    model = Model()
    with pytest.raises(ClientError) as caught:
        model.client.send_message(QueueUrl=model.url, **entry)
    assert caught.value.response["Error"]["Code"] == code


def test_a_batch_is_refused_as_a_whole_when_it_cannot_be_read() -> None:
    model = Model()
    known = model.client.exceptions
    half = "x" * (MAX_MESSAGE_BYTES // 2 + 1)
    with pytest.raises(known.BatchRequestTooLong):
        model.send(half, half)
    with pytest.raises(known.TooManyEntriesInBatchRequest):
        model.send(*"abcdefghijk")
    with pytest.raises(known.EmptyBatchRequest):
        model.send()
    twice = [{"Id": "1", "MessageBody": "a"}, {"Id": "1", "MessageBody": "b"}]
    with pytest.raises(known.BatchEntryIdsNotDistinct):
        model.client.send_message_batch(QueueUrl=model.url, Entries=twice)
    with pytest.raises(known.QueueDoesNotExist):
        model.client.purge_queue(QueueUrl="http://127.0.0.1/nowhere")
    assert model.counts() == (0, 0, 0)


def test_a_purge_forgets_everything() -> None:
    model = Model()
    model.send("a", "b")
    model.receive(1)
    model.send("c", DelaySeconds=5)
    model.client.purge_queue(QueueUrl=model.url)
    model.clock.advance(100)
    assert (model.bodies(), model.counts()) == ([], (0, 0, 0))
