"""Messages that fail for the last time: logged with their reason, kept, and reported by SWEEP."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from fanfold import names
from fanfold.aws.dead_letters import PAGE, DeadLetterQueue, DeadLetterReports
from functions._worker import MAX_LOGGED_CHARS
from proof.model.clock import Clock
from proof.model.sqs.client import Client, Queues
from proof.model.sqs.queues import Hooks
from tests.service import VISIBILITY_SECONDS, System, error, event

LAST, WAITS = "A message failed for the last time.", "A dead letter waits."
DAY = 86_400
EVENTS = {
    "Publish": "publish_queue/fanout_plan",
    "Express": "express_lane/segment_deliver",
    "Bulk": "bulk_lane/segment_deliver",
    "Relation": "relation_queue/relation_settle",
}
COMMANDS = {queue: event(name)["Records"][0]["body"] for queue, name in EVENTS.items()}


def max_receives(queue: str) -> int:
    return next(each.max_receives for each in names.QUEUES if each.name == queue)


def logged(caplog: pytest.LogCaptureFixture, sentence: str) -> list[Any]:
    return [record for record in caplog.records if record.getMessage() == sentence]


@pytest.fixture
def broken(system: System, monkeypatch: pytest.MonkeyPatch) -> str:
    """Reads of rows fail, and AWS has this much to say about it."""
    text = "May not read, " + "and not, " * 1000

    def fail(**_request: Any) -> Any:
        denied = error("AccessDeniedException")
        denied.response["Error"]["Message"] = text
        raise denied

    for operation in ("get_item", "batch_get_item"):
        monkeypatch.setattr(system.dynamodb, operation, fail)
    return f"AccessDeniedException: {text}"


@pytest.mark.parametrize("queue", COMMANDS)
def test_the_last_failure_is_logged_with_its_reason_and_sqs_moves_the_message(
    system: System, broken: str, caplog: pytest.LogCaptureFixture, queue: str
) -> None:
    record = system.record(queue, COMMANDS[queue], times_received=max_receives(queue) - 1)
    assert system.take({"Records": [record]}) == [record["messageId"]]
    assert logged(caplog, LAST) == []
    record = system.record(queue, COMMANDS[queue], times_received=max_receives(queue))
    assert system.take({"Records": [record]}) == [record["messageId"]], "SQS moves it"
    (line,) = logged(caplog, LAST)
    assert (line.message_id, line.queue) == (record["messageId"], queue)
    assert (line.receives, line.size) == (max_receives(queue), len(record["body"]))
    error_name = system.error_name("AccessDeniedException")
    assert (line.error, line.reason) == (error_name, broken[:MAX_LOGGED_CHARS])
    assert len(line.sha256) == 64
    assert record["body"] not in str(vars(line))
    assert system.waiting(f"{queue}Dlq") == 0, "the worker sends nothing there"


def test_a_message_that_is_rejected_at_its_last_receive_is_not_logged_as_failed(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    record = system.record("Publish", "no JSON", times_received=max_receives("Publish"))
    assert system.take({"Records": [record]}) == []
    system.sweep()
    assert logged(caplog, LAST) == logged(caplog, WAITS) == [], "the letter has its reason"
    assert len(system.rejected("Publish")) == 1


def put_dead_letter(system: System, queue: str, body: str = "{}", **more: Any) -> str:
    """Put a message into a dead-letter queue and return its id."""
    url = system.url(f"{queue}Dlq")
    return str(system.sqs.send_message(QueueUrl=url, MessageBody=body, **more)["MessageId"])


@pytest.fixture(autouse=True)
def cold_start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """SWEEP remembers no reports of other tests."""
    system = request.getfixturevalue("system")
    door = system.door("sweep")
    monkeypatch.setattr(door, "dead_letters", DeadLetterReports(door.dead_letters.queues))


def test_sweep_reports_a_dead_letter_without_a_reason_once(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    ids = {queue: put_dead_letter(system, queue, "Secret") for queue in COMMANDS}
    system.sweep()
    lines = logged(caplog, WAITS)
    assert {line.queue: line.message_id for line in lines} == ids
    assert {line.size for line in lines} == {6}
    assert {line.queue: line.first_message_id for line in lines} == ids
    assert {line.sha256 for line in lines} == {hashlib.sha256(b"Secret").hexdigest()}
    assert "Secret" not in caplog.text
    caplog.clear()
    system.clock.advance(60)
    system.sweep()
    assert logged(caplog, WAITS) == []
    new = put_dead_letter(system, "Bulk")
    system.sweep()
    (line,) = logged(caplog, WAITS)
    assert line.message_id == new


def moved(clock: Clock, *, waits: float = 0, **about: str) -> DeadLetterQueue:
    """A queue of one letter, which waited so long, and which SQS moved.

    Moto does not say of such a letter that SQS moved it; the model does, as SQS.
    """
    queues = Queues(clock, Hooks())
    url, dlq_url = queues.create_with_dlq("Publish", max_receives=1)
    sqs: Any = Client(queues)
    attributes = {name: {"DataType": "String", "StringValue": about[name]} for name in about}
    sqs.send_message(QueueUrl=url, MessageBody="{}", MessageAttributes=attributes)
    clock.advance(waits)
    for _ in range(2):
        sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
        clock.advance(VISIBILITY_SECONDS)
    return DeadLetterQueue(sqs, dlq_url)


def test_of_a_letter_that_sqs_moved_the_senders_attributes_are_no_reason_and_no_kind() -> None:
    clock = Clock()
    first_sent_at = str(clock.start_ms - 1)
    dead = moved(clock, kind="contract", reason="spring sale", first_sent_at=first_sent_at)
    (letter,) = dead.peek()
    assert (letter.kind, letter.reason, letter.first_sent_at) == ("", "", clock.start_ms - 1)
    assert [*DeadLetterReports({}).new([("Publish", letter)])], "nobody gave a reason"


def test_a_letter_counts_from_when_it_was_sent_and_not_from_when_it_was_moved() -> None:
    clock = Clock()
    found = DeadLetterReports({"Publish": moved(clock, waits=9 * DAY)})
    for _ in range(3):
        age = found.oldest_seconds(found.peek(), now_ms=clock.now_ms())
        assert age == 9 * DAY + 2 * VISIBILITY_SECONDS


def test_sweep_says_how_old_the_oldest_letter_is(
    system: System, capsys: pytest.CaptureFixture[str]
) -> None:
    def seconds() -> float:
        system.sweep()
        lines = [json.loads(raw) for raw in capsys.readouterr().out.splitlines() if "_aws" in raw]
        (line,) = [each for each in lines if names.OLDEST_DEAD_LETTER_SECONDS in each]
        (value,) = line[names.OLDEST_DEAD_LETTER_SECONDS]
        return float(value)

    assert seconds() == 0
    put_dead_letter(system, "Relation")
    (letter,) = system.door("sweep").dead_letters.queues["Relation"].peek()
    system.clock.ms = letter.sent_at + 3 * DAY * 1000
    put_dead_letter(system, "Bulk")
    assert seconds() == 3 * DAY


def test_one_run_of_sweep_reports_at_most_ten_messages_of_a_queue_and_remembers_few(
    system: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fanfold.aws.dead_letters.MAX_REPORTED", 2)
    for number in range(15):
        put_dead_letter(system, "Bulk", f"{number}")
    system.sweep()
    assert len(logged(caplog, WAITS)) == PAGE == 10
    assert len(system.door("sweep").dead_letters.reported) == 2
