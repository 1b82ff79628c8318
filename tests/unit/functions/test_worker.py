"""A batch of messages: each is handled and fails alone, concurrently with threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from fanfold import clock, names
from fanfold.aws.dead_letters import MAX_MESSAGE_BYTES, DeadLetterQueue
from fanfold.errors import BadInput, RefIdTaken, TooManyFollows, TryLater, Undeliverable
from functions._worker import QueueSource, Received, work
from proof.model.lambda_events import Context, sqs_event

QUEUE = "Publish"
BATCH = names.PUBLISH.batch_size


@dataclass
class Dlq:
    bodies: list[str] = field(default_factory=list)
    attributes: list[Any] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)

    def send_message(self, *, MessageBody: str, MessageAttributes: Any, **more: Any) -> None:  # noqa: N803
        self.bodies.append(MessageBody)
        self.attributes.append(MessageAttributes)
        self.groups.append(more.get("MessageGroupId", ""))


@pytest.fixture(params=["one by one", "side by side"])
def threads(request: pytest.FixtureRequest) -> Iterator[Executor | None]:
    if request.param == "one by one":
        yield None
        return
    with ThreadPoolExecutor(BATCH) as threads:
        yield threads


def records(count: int) -> list[Any]:
    messages = ({"MessageId": f"message-{each}", "Body": str(each)} for each in range(count))
    return list(sqs_event(QUEUE, messages)["Records"])


def failed_of(
    records: list[Any],
    handle: Callable[[Received[Any]], None],
    dlq: Dlq | None = None,
    read: Callable[[str], Any] = str,
    **options: Any,
) -> list[str]:
    source = QueueSource(cast("Any", dlq or Dlq()), "url", "dlq", max_receives=5)
    context: Any = Context(ends_at=1e12)
    answer = work({"Records": records}, context, read, handle, sources={QUEUE: source}, **options)
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_each_message_is_handled_and_fails_alone(threads: Executor | None) -> None:
    """It is read once; those with the same key are handled one after the other."""
    read, handled, dlq = list[str](), list[int](), Dlq()

    def number(body: str) -> int:
        read.append(body)
        if body in "35":
            raise BadInput("Never.") if body == "3" else RuntimeError
        return int(body)

    def handle(received: Received[int]) -> None:
        handled.append(received.message)
        if received.message in {1, 4, 8}:
            raise TryLater("Not now.") if received.message == 4 else RuntimeError

    failed = failed_of(
        records(10), handle, dlq, number, threads=threads, in_turn=lambda each: str(each % 3)
    )
    assert sorted(failed) == ["message-1", "message-4", "message-5", "message-8"]
    assert (read, dlq.bodies) == (list("0123456789"), ["3"])
    for first, rest in enumerate(([0, 6, 9], [1, 4, 7], [2, 8])):
        assert [each for each in handled if each % 3 == first] == rest


def reject(letter: dict[str, Any], error: Exception | None = None) -> tuple[dict[str, str], Dlq]:
    """The attributes with which a message that is rejected is sent on, and where to."""
    dlq = Dlq()

    def handle(_received: Received[str]) -> None:
        raise error or BadInput("Never.")

    assert failed_of(sqs_event(QUEUE, [letter])["Records"], handle, dlq) == []
    return {name: value["StringValue"] for name, value in dlq.attributes[0].items()}, dlq


def redriven(message_id: str, first: str) -> dict[str, Any]:
    """A message that was sent again after its dead letter, and says which one came first."""
    return {
        "MessageId": message_id,
        "Body": "{}",
        "Attributes": {"SentTimestamp": "1795000500000"},
        "MessageAttributes": {"first_message_id": {"DataType": "String", "StringValue": first}},
    }


def test_an_attribute_that_is_no_string_is_not_believed() -> None:
    """Of a binary one, an event has no string, or null."""
    dlq = Dlq()
    odd = {"dataType": "Binary", "binaryValue": "AA==", "stringValue": None}
    attributes = {"first_message_id": odd, "first_sent_at": odd}
    received = {**record(7, receives=1), "messageAttributes": attributes, "body": "junk"}

    def handle(_received: Received[str]) -> None:
        raise BadInput("Never.")

    failed_of([received], handle, dlq)
    carried = {name: each["StringValue"] for name, each in dlq.attributes[0].items()}
    assert (carried["first_message_id"], carried["first_sent_at"]) == ("message-7", "12")


ABOUT = ("kind", "first_senders", "first_sent_at", "first_message_id", "sha256", "reason")
SHA256_OF_BRACES = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_a_rejected_message_is_logged_under_the_id_and_hash_that_its_letter_carries(
    caplog: pytest.LogCaptureFixture,
) -> None:
    about, _ = reject({"MessageId": "first", "Body": "{}"})
    assert (about["first_message_id"], about["sha256"]) == ("first", SHA256_OF_BRACES)
    again, _ = reject(redriven("second", about["first_message_id"]))
    assert (again["first_message_id"], again["sha256"]) == ("first", SHA256_OF_BRACES)
    lines: list[Any] = [each for each in caplog.records if "was rejected" in each.getMessage()]
    assert [(line.message_id, line.first_message_id) for line in lines] == [
        ("first", "first"),
        ("second", "first"),
    ]
    assert {line.sha256 for line in lines} == {SHA256_OF_BRACES}


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BadInput("Never."), "contract"),
        (RefIdTaken("Never."), "contract"),
        (TooManyFollows("Not now."), "gave_up"),
        (Undeliverable("Too often."), "gave_up"),
    ],
)
def test_a_dead_letter_says_whether_a_retry_may_help_and_keeps_its_group(
    error: Exception, kind: str
) -> None:
    attributes = {
        "SentTimestamp": "1795000000000",
        "MessageGroupId": "ada",
        "SenderId": "AROAPLAN:plan",
    }
    carried = {"first_senders": {"DataType": "String", "StringValue": "AIDAFIRST AROAPLAN"}}
    letter = {"MessageId": "1", "Body": "{}", "MessageAttributes": carried}
    values, dlq = reject({**letter, "Attributes": attributes}, error)
    assert values == {
        "kind": kind,
        "first_senders": "AROAPLAN AIDAFIRST",
        "first_sent_at": "1795000000000",
        "first_message_id": "1",
        "sha256": SHA256_OF_BRACES,
        "reason": str(error),
    }
    assert dlq.groups == ["ada"]


@pytest.mark.parametrize(
    ("room", "names"),
    [
        (0, set()),
        (4 + 6 + 8 - 1, set()),
        (4 + 6 + 8, {"kind"}),
        (75 + 16 + 6 + 2, {"kind", "first_senders", "first_sent_at", "first_message_id"}),
        (99 + 6 + 6 + 64, {*ABOUT} - {"reason"}),
        (175 + 6 + 6 + 8, {*ABOUT}),
    ],
)
def test_a_large_dead_letter_takes_along_what_fits(room: int, names: set[str]) -> None:
    """Names, the type `String` and values count, in bytes."""
    dlq = Dlq()
    body = "x" * (MAX_MESSAGE_BYTES - room)
    DeadLetterQueue(cast("Any", dlq), "url").add(
        body,
        reason="\u00e9" * 4,
        kind="contract",
        first_sent_at=1_795_000_000_000,
        first_message_id="m1",
        senders="AIDA12",
        group="",
    )
    assert dlq.attributes[0].keys() == names


def record(number: int, receives: int) -> dict[str, Any]:
    (each,) = records(1)
    attributes = {"ApproximateReceiveCount": str(receives), "SentTimestamp": str(5 + number)}
    return {**each, "messageId": f"message-{number}", "body": "same", "attributes": attributes}


@pytest.mark.parametrize("fails", [False, True])
def test_one_of_the_messages_that_ask_for_the_same_is_handled_for_all(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    handled: list[Received[str]] = []

    def handle(received: Received[str]) -> None:
        handled.append(received)
        if fails:
            raise TryLater("not now")

    copies = [record(number, receives) for number, receives in enumerate((1, 5, 2))]
    failed = failed_of(copies, handle, in_turn=str, once=str)
    assert failed == (["message-0", "message-1", "message-2"] if fails else [])
    (received,) = handled
    assert (received.sent_at, received.redelivered) == (7, True), "the last, for all of them"
    assert ("A message failed for the last time." in caplog.text) is fails


@pytest.mark.parametrize(("left_ms", "begins"), [(11_999, False), (12_001, True)])
def test_a_message_begins_only_with_time_for_two_unanswered_calls(
    monkeypatch: pytest.MonkeyPatch, left_ms: int, begins: bool
) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 100.0)
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda self: left_ms)
    handled: list[Received[str]] = []
    assert bool(failed_of(records(1), handled.append)) is not begins
    assert [each.stop_at for each in handled] == ([100.0 + left_ms / 1000] if begins else [])
