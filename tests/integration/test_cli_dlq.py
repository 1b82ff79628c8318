"""`fanfold dlq`: dead letters are looked at, and moved back, without losing one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fanfold import names, times
from fanfold_cli import redriving
from fanfold_cli.commands.dlq import QUEUES, QueueName
from tests.integration.cli import Ran, run
from tests.integration.system import ACCOUNT, AT_MS, REGION, System, error, settings

# moto shows a message again *after* the millisecond at which it should.
MOMENT = 0.001
RETENTION_MS = settings().retention_days * 86_400_000


class FakeLambda:
    """Says what feeds a queue, and what its function is told."""

    def __init__(self, mappings: int = 1) -> None:
        self.mappings = mappings

    def list_event_source_mappings(self, *, EventSourceArn: str) -> Any:  # noqa: N803
        assert EventSourceArn.endswith(":Publish")
        return {"EventSourceMappings": [{"FunctionArn": "the-plan"}] * self.mappings}

    def get_function_configuration(self, *, FunctionName: str) -> Any:  # noqa: N803
        assert FunctionName == "the-plan"
        return {"Environment": {"Variables": settings().to_env()}}


class Sqs:
    """moto's SQS, to which the move tasks are added, or the error of one that knows none."""

    def __init__(self, system: System, refuse: Exception | None = None) -> None:
        self.system, self.refuse = system, refuse
        self.started: list[Any] = []
        self.moved = 0
        self.before_send: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system.sqs, name)

    def send_message(self, **request: Any) -> Any:
        self.before_send()
        return self.system.sqs.send_message(**request)

    def start_message_move_task(self, **request: Any) -> Any:
        if self.refuse:
            raise self.refuse
        self.started.append(request)
        return {"TaskHandle": "the-task"}

    def list_message_move_tasks(self, *, SourceArn: str, MaxResults: int) -> Any:  # noqa: N803
        assert (SourceArn, MaxResults) == (self.started[-1]["SourceArn"], 1)
        source, to = (
            self.started[-1][k].rpartition(":")[2] for k in ("SourceArn", "DestinationArn")
        )
        for record in self.system.receive(source, 2):
            self.system.sqs.send_message(QueueUrl=self.system.url(to), MessageBody=record["body"])
            self.system.delete(source, record)
            self.moved += 1
        left = self.system.waiting(source)
        return {
            "Results": [
                {
                    "Status": "RUNNING" if left else "COMPLETED",
                    "ApproximateNumberOfMessagesMoved": self.moved,
                    "ApproximateNumberOfMessagesToMove": self.moved + left,
                }
            ]
        }


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The naps of the command, which take no time here."""
    naps: list[float] = []
    monkeypatch.setattr("fanfold_cli.redriving.time.sleep", naps.append)
    return naps


@pytest.fixture
def old_sqs(system: System, slept: list[float]) -> Sqs:
    """An SQS that knows no move tasks."""
    return Sqs(system, error("InvalidAction"))


def bury(system: System, queue: str, body: Any, *, reason: str = "", group: str = "") -> str:
    raw = body if isinstance(body, str) else json.dumps(body)
    more: Any = {"MessageGroupId": group} if group else {}
    if reason:
        more["MessageAttributes"] = {"reason": {"DataType": "String", "StringValue": reason}}
    answer = system.sqs.send_message(QueueUrl=system.url(f"{queue}Dlq"), MessageBody=raw, **more)
    return str(answer["MessageId"])


def published(age_ms: int | None) -> Any:
    """A message that publishes a post so long ago, or without a time."""
    post: Any = {"version": 1, "type": "post.published", "publisher_id": "ada", "ref_id": "r"}
    if age_ms is not None:
        post["published_at"] = times.to_text(AT_MS - age_ms)
    return post


def shown(system: System, queue: str) -> list[Any]:
    """What can be received of a queue the next moment."""
    system.clock.advance(MOMENT)
    found = []
    while records := system.receive(queue):
        found += records
    return found


def redrive(sqs: Sqs, *options: str) -> Ran:
    return run("dlq", "redrive", *options, sqs=sqs, lambda_=FakeLambda())


def test_every_queue_can_be_named() -> None:
    assert [name.value for name in QueueName] == list(QUEUES)
    assert tuple(QUEUES.values()) == names.QUEUES


# list


def test_the_list_tells_what_is_there_and_no_content(system: System) -> None:
    first = bury(system, "Publish", "Secret 1", reason="The message is not JSON.")
    system.clock.advance(1)
    second = bury(system, "Bulk", "Secret number 2")
    listed = run("dlq", "list", "--json")
    assert listed.json["messages"] == [
        {
            "queue": "publish",
            "message_id": first,
            "sent_at": "2026-11-20T18:00:00.123Z",
            "receives": 1,
            "size": 8,
            "reason": "The message is not JSON.",
        },
        {
            "queue": "bulk",
            "message_id": second,
            "sent_at": "2026-11-20T18:00:01.123Z",
            "receives": 1,
            "size": 15,
            "reason": "",
        },
    ]
    assert listed.json["counts"] == {"publish": 1, "express": 0, "bulk": 1, "relation": 0}
    system.clock.advance(MOMENT)
    table = run("dlq", "list")
    assert table.exit_code == 0
    assert first in table.stdout
    assert "Secret" not in table.stdout + listed.stdout


def test_a_listing_hides_and_loses_nothing(system: System) -> None:
    ids = {bury(system, "Bulk", f"{number}") for number in range(25)}
    for _ in range(12):  # more often than any queue tries
        rows = run("dlq", "list", "--queue", "bulk", "--json").json["messages"]
        assert {row["message_id"] for row in rows} == ids
        system.clock.advance(MOMENT)
    assert {record["messageId"] for record in shown(system, "BulkDlq")} == ids
    assert system.waiting("Bulk") == 0


def test_a_listing_says_what_it_did_not_look_at(system: System) -> None:
    for number in range(12):
        bury(system, "Bulk", f"{number}")
    listed = run("dlq", "list", "--queue", "bulk", "--limit", "5")
    assert "about 12 messages, of which 5 are listed" in listed.said
    assert "No dead letters" in run("dlq", "list", "--queue", "express").said


def test_bodies_are_shown_when_asked_for_cut_short_and_harmless(system: System) -> None:
    bury(system, "Bulk", "[red]\x1b[2J" + "x" * 200)
    assert run("dlq", "list", "--bodies", "--json").json["messages"][0]["body"] == (
        "[red]\x1b[2J" + "x" * 71
    )
    system.clock.advance(MOMENT)
    table = run("dlq", "list", "--bodies").stdout
    assert "\x1b[2J" not in table
    assert "[red]" in table


# redrive, by hand


def test_a_narrow_terminal_shows_each_letter_whole(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    system.take({"Records": [system.record("Publish", "{")]})
    monkeypatch.setattr("fanfold_cli.commands.dlq.columns", lambda: 80)
    shown = run("dlq", "list", "--bodies").stdout.splitlines()
    names = [line.partition(":")[0].strip() for line in shown if line]
    assert names == ["queue", "message_id", "sent_at", "receives", "size", "reason", "body"]
    assert "    reason: The message is not JSON." in shown


def test_where_sqs_has_no_move_task_each_letter_is_sent_back_and_then_deleted(
    system: System, old_sqs: Sqs
) -> None:
    users = system.give_followers(3)
    system.publish()
    (record,) = system.receive("Publish")
    bury(system, "Publish", record["body"], reason="It was broken.", group="ada")
    system.delete("Publish", record)
    done = redrive(old_sqs, "--json")
    assert done.json["moved"] == 1
    assert done.json["queues"][0] == {
        "queue": "publish",
        "moved": 1,
        "skipped": 0,
        "how": "loop",
    }
    (back,) = system.receive("Publish")
    assert back["attributes"]["MessageGroupId"] == "ada"
    assert back["messageAttributes"] == {}
    assert (system.waiting("PublishDlq"), system.waiting("Publish")) == (0, 1)
    system.clock.advance(1000)
    system.pump()
    assert system.reached() == users


def test_a_redrive_of_all_queues_moves_every_letter_to_its_own(
    system: System, old_sqs: Sqs
) -> None:
    for queue in names.QUEUES:
        for number in range(12):
            bury(system, queue.name, f"{queue.name} {number}")
    assert "Moved 48 messages back." in redrive(old_sqs).stdout
    for queue in names.QUEUES:
        assert system.waiting(f"{queue.name}Dlq") == 0
        found = []
        while records := system.receive(queue.name):
            found += [record["body"] for record in records]
        assert sorted(found) == sorted(f"{queue.name} {number}" for number in range(12))


def test_posts_past_their_time_stay_and_that_is_said(system: System, old_sqs: Sqs) -> None:
    expired = bury(system, "Publish", published(RETENTION_MS))
    for age in (RETENTION_MS - 1, 0, None):
        bury(system, "Publish", published(age))
    bury(system, "Publish", "no JSON")
    done = redrive(old_sqs, "--queue", "publish")
    assert "Moved 4 messages back." in done.stdout
    assert f"{expired} publishes an expired post" in done.said
    assert "Left 1 expired post in" in done.said
    (left,) = shown(system, "PublishDlq")
    assert left["messageId"] == expired, "and it can be seen at once"


def test_a_letter_whose_sending_fails_stays(system: System, old_sqs: Sqs) -> None:
    ids = {bury(system, "Publish", f"{number}") for number in range(3)}

    def fail() -> None:
        raise error("ServiceUnavailable", 503)

    old_sqs.before_send = fail
    done = redrive(old_sqs, "--queue", "publish")
    assert (done.exit_code, "Messages that were not moved are still" in done.said) == (1, True)
    assert {record["messageId"] for record in shown(system, "PublishDlq")} == ids
    assert system.waiting("Publish") == 0


def test_a_letter_that_comes_back_meanwhile_is_not_moved_in_circles(
    system: System, old_sqs: Sqs
) -> None:
    bury(system, "Publish", "first")
    old_sqs.before_send = lambda: bury(system, "Publish", "again")
    assert redrive(old_sqs, "--queue", "publish", "--json").json["moved"] == 1
    assert system.waiting("PublishDlq") == 1


@pytest.mark.parametrize(("rate", "seconds"), [("2", 2.0), ("1", 4.0)])
def test_the_rate_is_kept(
    system: System,
    old_sqs: Sqs,
    slept: list[float],
    monkeypatch: pytest.MonkeyPatch,
    rate: str,
    seconds: float,
) -> None:
    for number in range(5):
        bury(system, "Publish", f"{number}")
    monkeypatch.setattr("fanfold_cli.redriving.time.monotonic", lambda: sum(slept))
    redrive(old_sqs, "--queue", "publish", "--rate", rate)
    assert sum(slept) == pytest.approx(seconds), "the first at once, then one after the other"


# redrive, by SQS


def arn(queue: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"


@pytest.mark.parametrize("queue", ["Express", "Bulk", "Relation"])
def test_sqs_moves_what_cannot_be_past_its_time_to_a_destination_that_is_named(
    system: System, slept: list[float], queue: str
) -> None:
    sqs = Sqs(system)
    for number in range(5):
        bury(system, queue, f"{number}", reason="Sent here by a worker.")
    done = redrive(sqs, "--queue", queue.lower(), "--rate", "20", "--json")
    assert sqs.started == [
        {
            "SourceArn": arn(f"{queue}Dlq"),
            "DestinationArn": arn(queue),
            "MaxNumberOfMessagesPerSecond": 20,
        }
    ]
    assert done.json["moved"] == 5
    assert done.json["queues"][0]["how"] == "task"
    assert slept == [redriving.POLL_SECONDS] * 2
    assert system.waiting(queue) == 5


def test_posts_are_never_moved_by_a_task_because_it_cannot_choose(
    system: System, slept: list[float]
) -> None:
    sqs = Sqs(system)
    bury(system, "Publish", published(0))
    assert redrive(sqs, "--json").json["moved"] == 1
    assert sqs.started == []


def test_a_task_that_fails_is_told(
    system: System, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    sqs = Sqs(system)
    failed = {"Results": [{"Status": "FAILED", "FailureReason": "CouldNotDetermineDestination"}]}
    monkeypatch.setattr(sqs, "list_message_move_tasks", lambda **_request: failed)
    bury(system, "Bulk", "1")
    done = redrive(sqs)
    assert (done.exit_code, "FAILED CouldNotDetermineDestination" in done.said) == (1, True)


def test_another_error_than_an_unknown_operation_is_told(
    system: System, slept: list[float]
) -> None:
    bury(system, "Bulk", "1")
    done = redrive(Sqs(system, error("AccessDenied", 403)))
    assert (done.exit_code, "AccessDenied" in done.said) == (1, True)
    assert system.waiting("BulkDlq") == 1


def test_an_empty_queue_is_no_failure(system: System, slept: list[float]) -> None:
    sqs = Sqs(system)
    assert "Moved 0 messages back." in redrive(sqs).stdout
    assert sqs.started == []


def test_a_queue_that_nothing_is_fed_from_is_told(system: System) -> None:
    done = run("dlq", "redrive", sqs=Sqs(system), lambda_=FakeLambda(mappings=0))
    assert (done.exit_code, "has 0 event source mappings" in done.said) == (1, True)
