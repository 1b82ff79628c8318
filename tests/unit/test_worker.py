"""A batch of messages: each is handled and fails alone, concurrently with threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Barrier
from time import sleep
from typing import Any, cast

import pytest

from aws_model.lambda_events import Context, sqs_event
from fanfold import clock, names
from fanfold.aws.dead_letters import MAX_MESSAGE_BYTES, DeadLetterQueue
from fanfold.errors import BadInput, NotYet, RefIdTaken, TooManyFollows, TryLater, Undeliverable
from functions._worker import NOT_YET_SECONDS, Received, Source, work

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


def event(count: int) -> dict[str, Any]:
    messages = ({"MessageId": f"message-{each}", "Body": str(each)} for each in range(count))
    return sqs_event(QUEUE, messages)


def failed_of(
    count: int,
    handle: Callable[[Received], None],
    threads: Executor | None,
    dlq: Dlq,
    in_turn: Callable[[str], str | None] = lambda _body: None,
) -> list[str]:
    source = Source(cast("Any", dlq), "url", "dlq", max_receives=5)
    context: Any = Context(ends_at=1e12)
    answer = work(
        event(count), context, handle, sources={QUEUE: source}, threads=threads, in_turn=in_turn
    )
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def test_each_message_is_handled_and_fails_alone(threads: Executor | None) -> None:
    handled, dlq = [], Dlq()

    def handle(received: Received) -> None:
        handled.append(received.body)
        if received.body == "3":
            raise BadInput("Never.")
        if received.body in {"1", "4", "7"}:
            raise TryLater("Not now.") if received.body == "4" else RuntimeError

    assert failed_of(10, handle, threads, dlq) == ["message-1", "message-4", "message-7"]
    assert sorted(handled) == list("0123456789")
    assert dlq.bodies == ["3"]


def test_with_threads_a_batch_is_handled_concurrently() -> None:
    all_of_them = Barrier(BATCH, timeout=5)

    def meet(_received: Received) -> None:
        all_of_them.wait()

    with ThreadPoolExecutor(BATCH) as threads:
        assert failed_of(10, meet, threads, Dlq()) == []


def test_messages_with_the_same_key_are_handled_in_turn(
    threads: Executor | None,
) -> None:
    begun: list[str] = []
    under_way: set[int] = set()

    def handle(received: Received) -> None:
        line = int(received.body) % 3
        assert line not in under_way
        under_way.add(line)
        begun.append(received.body)
        sleep(0.01)
        under_way.remove(line)
        if received.body in {"4", "5"}:
            raise TryLater("Not now.")

    failed = failed_of(10, handle, threads, Dlq(), in_turn=lambda body: f"user {int(body) % 3}")
    assert sorted(failed) == ["message-4", "message-5"]
    for line in range(3):
        assert [each for each in begun if int(each) % 3 == line] == [
            str(each) for each in range(line, 10, 3)
        ]


def test_a_message_that_was_moved_tells_both_its_times_and_takes_the_first_one_along() -> None:
    first, sent, dlq = 1_795_000_000_000, 1_795_000_500_000, Dlq()
    seen: list[Received] = []

    def handle(received: Received) -> None:
        seen.append(received)
        raise BadInput("Never.")

    moved = {
        "MessageId": "moved",
        "Body": "{}",
        "Attributes": {"SentTimestamp": str(sent), "ApproximateReceiveCount": "1"},
        "MessageAttributes": {"first_sent_at": {"DataType": "String", "StringValue": str(first)}},
    }
    source = Source(cast("Any", dlq), "url", "dlq", max_receives=5)
    context: Any = Context(ends_at=1e12)
    assert work(sqs_event(QUEUE, [moved]), context, handle, sources={QUEUE: source}) == {
        "batchItemFailures": []
    }
    assert [(each.sent_at, each.first_sent_at) for each in seen] == [(sent, first)]
    (attributes,) = dlq.attributes
    assert attributes["first_sent_at"] == {"DataType": "String", "StringValue": str(first)}


def reject(letter: dict[str, Any], error: Exception | None = None) -> tuple[dict[str, str], Dlq]:
    """The attributes with which a message that is rejected is sent on, and where to."""
    dlq = Dlq()

    def handle(_received: Received) -> None:
        raise error or BadInput("Never.")

    source = Source(cast("Any", dlq), "url", "dlq", max_receives=5)
    context: Any = Context(ends_at=1e12)
    work(sqs_event(QUEUE, [letter]), context, handle, sources={QUEUE: source})
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

    def handle(_received: Received) -> None:
        raise BadInput("Never.")

    source = Source(cast("Any", dlq), "url", "dlq", max_receives=5)
    context: Any = Context(ends_at=1e12)
    work({"Records": [received]}, context, handle, sources={QUEUE: source})
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


@pytest.mark.parametrize("odd", ["", "a b", "\u00e9", "x" * 101, "a\n"])
def test_what_cannot_be_the_id_of_a_message_is_not_believed(odd: str) -> None:
    about, _ = reject(redriven("second", odd))
    assert about["first_message_id"] == "second"


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
        (18 + 13 + 6 + 6, {"kind", "first_senders"}),
        (43 + 13 + 6 + 13, {"kind", "first_senders", "first_sent_at"}),
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
    (each,) = event(1)["Records"]
    attributes = {"ApproximateReceiveCount": str(receives), "SentTimestamp": str(5 + number)}
    return {**each, "messageId": f"message-{number}", "body": "same", "attributes": attributes}


@pytest.mark.parametrize("fails", [False, True])
def test_one_of_the_messages_that_ask_for_the_same_is_handled_for_all(
    fails: bool, caplog: pytest.LogCaptureFixture
) -> None:
    handled: list[Received] = []

    def handle(received: Received) -> None:
        handled.append(received)
        if fails:
            raise TryLater("not now")

    records = [record(number, receives) for number, receives in enumerate((1, 5, 2))]
    source = Source(cast("Any", Dlq()), "url", "dlq", max_receives=5)
    answer = work(
        {"Records": records},
        cast("Any", Context(ends_at=1e12)),
        handle,
        sources={QUEUE: source},
        in_turn=lambda body: body,
        once=lambda body: body,
    )
    failed = [each["itemIdentifier"] for each in answer["batchItemFailures"]]
    assert failed == (["message-0", "message-1", "message-2"] if fails else [])
    (received,) = handled
    assert (received.sent_at, received.redelivered) == (7, True), "the last, for all of them"
    assert ("A message failed for the last time." in caplog.text) is fails


@pytest.mark.parametrize(("left_ms", "begins"), [(11_999, False), (12_001, True)])
def test_a_message_begins_only_with_time_for_two_unanswered_calls(
    monkeypatch: pytest.MonkeyPatch, left_ms: int, begins: bool
) -> None:
    monkeypatch.setattr(clock, "monotonic", lambda: 100.0)
    handled: list[Received] = []
    context: Any = Context(ends_at=0)
    monkeypatch.setattr(Context, "get_remaining_time_in_millis", lambda self: left_ms, raising=True)
    source = Source(cast("Any", Dlq()), "url", "dlq", max_receives=5)
    answer = work(event(1), context, handled.append, sources={QUEUE: source})
    assert bool(answer["batchItemFailures"]) is not begins
    assert [each.stop_at for each in handled] == ([100.0 + left_ms / 1000] if begins else [])


class Queue(Dlq):
    """A queue that may refuse to hide messages anew."""

    def __init__(self, *, refuses: bool) -> None:
        super().__init__()
        self.refuses = refuses
        self.hidden: list[tuple[str, str, int]] = []

    def change_message_visibility(
        self,
        *,
        QueueUrl: str,  # noqa: N803
        ReceiptHandle: str,  # noqa: N803
        VisibilityTimeout: int,  # noqa: N803
    ) -> None:
        if self.refuses:
            raise RuntimeError("No.")
        self.hidden.append((QueueUrl, ReceiptHandle, VisibilityTimeout))


def has_overtaken(queue: Queue, receives: int, error: Exception) -> list[Any]:
    """Let a message that has overtaken what it needs fail beside one that is handled."""
    messages = [
        {
            "MessageId": f"m{number}",
            "Body": str(number),
            "ReceiptHandle": f"r{number}",
            "Attributes": {"ApproximateReceiveCount": str(receives)},
        }
        for number in range(2)
    ]

    def handle(received: Received) -> None:
        if received.body == "1":
            raise error

    source = Source(cast("Any", queue), "url", "dlq", max_receives=5)
    context: Any = Context(ends_at=1e12)
    answer = work(sqs_event(QUEUE, messages), context, handle, sources={QUEUE: source})
    failures: list[Any] = answer["batchItemFailures"]
    return failures


@pytest.mark.parametrize(("receives", "seconds"), [*enumerate(NOT_YET_SECONDS, 1), (5, None)])
def test_a_message_that_has_overtaken_what_it_needs_is_hidden_anew(
    receives: int, seconds: int | None
) -> None:
    queue = Queue(refuses=False)
    assert has_overtaken(queue, receives, NotYet("Soon.")) == [{"itemIdentifier": "m1"}]
    assert queue.hidden == ([("url", "r1", seconds)] if seconds else [])
    assert len(NOT_YET_SECONDS) == names.PUBLISH.max_receives - 1


def test_a_message_that_fails_otherwise_waits_for_the_timeout_of_its_queue() -> None:
    queue = Queue(refuses=False)
    assert has_overtaken(queue, 1, TryLater("A throttle.")) == [{"itemIdentifier": "m1"}]
    assert queue.hidden == []


def test_a_message_that_cannot_be_hidden_anew_comes_again_all_the_same() -> None:
    assert has_overtaken(Queue(refuses=True), 1, NotYet("Soon.")) == [{"itemIdentifier": "m1"}]
