"""Messages that fail to the last: said why, kept, and said once more by SWEEP."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold import names
from fanfold.aws.dead_letters import PAGE, Watch
from functions._worker import MAX_REASON_CHARS
from tests.integration.system import Json, System, error

LAST = "A message failed for the last time."
ORDERS: dict[str, Json] = {
    "Publish": {"version": 1, "type": "fanout.plan", "fanout_id": "post-1"},
    "Express": {
        "version": 1,
        "type": "segment.deliver",
        "fanout_id": "post-1",
        "segment": 0,
        "segments": 1,
        "position": "",
        "hops": 0,
    },
    "Relation": {
        "version": 1,
        "type": "relation.settle",
        "user_id": "grace",
        "publisher_id": "ada",
    },
}
ORDERS["Bulk"] = ORDERS["Express"]


def tries(queue: str) -> int:
    return next(each.max_receives for each in names.QUEUES if each.name == queue)


def said(caplog: pytest.LogCaptureFixture, sentence: str) -> list[Any]:
    """The log lines of this sentence."""
    return [record for record in caplog.records if record.getMessage() == sentence]


@pytest.fixture
def broken(system: System, monkeypatch: pytest.MonkeyPatch) -> str:
    """No table can be read, and the error that says so holds a long text."""
    text = "Secret" + "x" * 1000

    def fail(**_request: Any) -> Any:
        raise RuntimeError(text)

    monkeypatch.setattr(system.dynamodb, "get_item", fail)
    return text


@pytest.mark.parametrize("queue", ORDERS)
def test_the_last_failure_is_logged_with_its_reason_and_then_left_to_the_queue(
    system: System, broken: str, caplog: pytest.LogCaptureFixture, queue: str
) -> None:
    record = system.record(queue, ORDERS[queue], times_received=tries(queue) - 1)
    assert system.take({"Records": [record]}) == [record["messageId"]]
    assert said(caplog, LAST) == []
    record = system.record(queue, ORDERS[queue], times_received=tries(queue))
    assert system.take({"Records": [record]}) == [record["messageId"]], "SQS moves it"
    (line,) = said(caplog, LAST)
    assert (line.message_id, line.queue) == (record["messageId"], queue)
    assert (line.receives, line.size) == (tries(queue), len(record["body"]))
    assert (line.error, line.reason) == ("RuntimeError", broken[:MAX_REASON_CHARS])
    assert len(line.sha256) == 64
    assert record["body"] not in str(vars(line))
    assert system.waiting(f"{queue}Dlq") == 0, "nothing is sent there by the worker"


def test_a_throttle_that_lasts_is_said_too(
    system: System, fail_first: Any, caplog: pytest.LogCaptureFixture
) -> None:
    fail_first(system.dynamodb, "get_item", [error("ThrottlingException")])
    record = system.record("Publish", ORDERS["Publish"], times_received=tries("Publish"))
    assert system.take({"Records": [record]}) == [record["messageId"]]
    (line,) = said(caplog, LAST)
    assert (line.error, "ThrottlingException" in line.reason) == ("ClientError", True)


def test_a_message_that_was_never_begun_is_said_too(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    system.context.ends_at = 1
    record = system.record("Publish", ORDERS["Publish"], times_received=tries("Publish"))
    assert system.take({"Records": [record]}) == [record["messageId"]]
    (line,) = said(caplog, LAST)
    assert (line.error, "Too little time" in line.reason) == ("TryLater", True)


def test_a_message_that_is_rejected_at_its_last_try_is_only_rejected(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    record = system.record("Publish", "no JSON", times_received=tries("Publish"))
    assert system.take({"Records": [record]}) == []
    assert said(caplog, LAST) == []
    assert len(system.rejected("Publish")) == 1


@pytest.mark.usefixtures("broken")
def test_the_queue_moves_what_failed_to_the_last_and_its_reason_was_said_once(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    system.give_followers(1)
    system.publish()
    system.pump("Publish")
    assert system.waiting("PublishDlq") == 1
    (line,) = said(caplog, LAST)
    (record,) = system.receive("PublishDlq")
    assert line.message_id == record["messageId"], "by which the two are found together"


WAITS = "A dead letter waits."


def bury(system: System, queue: str, body: str = "{}", **more: Any) -> str:
    """Put a message into a dead-letter queue; its id."""
    url = system.url(f"{queue}Dlq")
    return str(system.sqs.send_message(QueueUrl=url, MessageBody=body, **more)["MessageId"])


@pytest.fixture(autouse=True)
def cold(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """SWEEP remembers nothing of other tests."""
    system = request.getfixturevalue("system")
    door = system.door("sweep")
    monkeypatch.setattr(door, "watch", Watch(door.watch.queues))


def test_sweep_names_a_dead_letter_that_nobody_explained_once(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    ids = {queue: bury(system, queue, "Secret") for queue in ORDERS}
    system.sweep()
    lines = said(caplog, WAITS)
    assert {line.queue: line.message_id for line in lines} == ids
    assert {line.size for line in lines} == {6}
    assert "Secret" not in caplog.text
    caplog.clear()
    system.clock.advance(60)
    system.sweep()
    assert said(caplog, WAITS) == []
    new = bury(system, "Bulk")
    system.sweep()
    (line,) = said(caplog, WAITS)
    assert line.message_id == new


def test_sweep_says_nothing_of_what_a_worker_rejected_with_a_reason(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    system.take({"Records": [system.record("Publish", "no JSON")]})
    system.sweep()
    assert said(caplog, WAITS) == []


def test_sweep_hides_takes_and_moves_nothing(system: System) -> None:
    ids = {bury(system, "Express", f"{number}") for number in range(3)}
    for _ in range(2 * tries("Express")):
        system.sweep()
    found = system.receive("ExpressDlq")
    assert {record["messageId"] for record in found} == ids
    assert system.waiting("Express") == 0


def test_sweep_looks_at_ten_letters_of_a_queue_in_one_run(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(15):
        bury(system, "Bulk", f"{number}")
    system.sweep()
    assert len(said(caplog, WAITS)) == PAGE == 10


def test_what_sweep_remembers_is_bounded(
    system: System, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("fanfold.aws.dead_letters.MAX_REMEMBERED", 2)
    for number in range(3):
        bury(system, "Bulk", f"{number}")
    system.sweep()
    assert len(system.door("sweep").watch.remembered) == 2
    assert len(said(caplog, WAITS)) == 3
