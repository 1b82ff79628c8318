"""`fanfold dlq`: dead letters are listed and moved back, and none is lost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fanfold import names, times
from fanfold.aws.dead_letters import MAX_MESSAGE_BYTES, Count
from fanfold_cli.commands.dlq import QueueName
from fanfold_cli.dlq import letters, move_tasks
from fanfold_cli.dlq.letters import QUEUES
from tests.commands import FakeLambda, Ran, run
from tests.service import ACCOUNT, AT, AT_MS, REGION, VISIBILITY_SECONDS, System, error, settings

# moto shows a message again one millisecond after its visibility timeout.
MOMENT = 0.001
DAY_MS = 86_400_000
RETENTION_MS = settings().retention_days * DAY_MS


class Sqs:
    """moto's SQS with move tasks, or with the error `refuse` for them."""

    def __init__(self, system: System, refuse: Exception | None = None) -> None:
        self.system, self.refuse = system, refuse
        self.started: list[Any] = []
        self.moved = 0
        self.batches: list[int] = []
        self.cancelled: list[str] = []
        self.before_send: Callable[[], object] = lambda: None
        self.before_receive: Callable[[], object] = lambda: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.system.sqs, name)

    def receive_message(self, **request: Any) -> Any:
        self.before_receive()
        return self.system.sqs.receive_message(**request)

    def send_message_batch(self, **request: Any) -> Any:
        self.before_send()
        self.batches.append(len(request["Entries"]))
        return self.system.sqs.send_message_batch(**request)

    def start_message_move_task(self, **request: Any) -> Any:
        if self.refuse:
            raise self.refuse
        self.started.append(request)
        return {"TaskHandle": "the-task"}

    def cancel_message_move_task(self, *, TaskHandle: str) -> Any:  # noqa: N803
        self.cancelled.append(TaskHandle)
        return {"ApproximateNumberOfMessagesMoved": self.moved}

    def list_message_move_tasks(self, *, SourceArn: str, MaxResults: int) -> Any:  # noqa: N803
        if self.refuse:
            raise self.refuse
        if not self.started:
            return {"Results": []}
        assert (SourceArn, MaxResults) == (self.started[-1]["SourceArn"], 1)
        source, to = (
            self.started[-1][k].rpartition(":")[2] for k in ("SourceArn", "DestinationArn")
        )
        for record in self.system.receive(source, 2):
            self.system.sqs.send_message(QueueUrl=self.system.url(to), MessageBody=record["body"])
            self.system.delete(source, record)
            self.moved += 1
        left = self.system.waiting(source)
        running = "CANCELLED" if self.cancelled else "RUNNING"
        task = {
            "TaskHandle": "the-task",
            "Status": running if left else "COMPLETED",
            "ApproximateNumberOfMessagesMoved": self.moved,
            "ApproximateNumberOfMessagesToMove": self.moved + left,
        }
        return {"Results": [task]}


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the command, which take no time here."""
    naps: list[float] = []
    monkeypatch.setattr("fanfold_cli.dlq.redriving.time.sleep", naps.append)  # the module `time`
    return naps


@pytest.fixture
def old_sqs(system: System, slept: list[float]) -> Sqs:
    """An SQS without move tasks."""
    return Sqs(system, error("InvalidAction"))


def bury(system: System, queue: str, body: Any, *, group: str = "", **about: Any) -> str:
    """Put a letter into a dead-letter queue, with attributes such as its `kind`; its id."""
    raw = body if isinstance(body, str) else json.dumps(body)
    more: Any = {"MessageGroupId": group} if group else {}
    more["MessageAttributes"] = {
        name: {"DataType": "String", "StringValue": str(value)} for name, value in about.items()
    }
    answer = system.sqs.send_message(QueueUrl=system.url(f"{queue}Dlq"), MessageBody=raw, **more)
    return str(answer["MessageId"])


def bury_many(system: System, queue: str, count: int) -> set[str]:
    return {bury(system, queue, f"{queue} {number}") for number in range(count)}


def published(age_ms: int | None) -> Any:
    """A message that publishes a post of this age, or of no time."""
    post: Any = {"version": 1, "type": "post.published", "publisher_id": "ada", "ref_id": "r"}
    if age_ms is not None:
        post["published_at"] = times.to_text(AT_MS - age_ms)
    return post


def shown(system: System, queue: str) -> list[Any]:
    """The messages that a queue shows one millisecond later."""
    system.clock.advance(MOMENT)
    found = []
    while records := system.receive(queue):
        found += records
    return found


def redrive(sqs: Sqs, *options: str) -> Ran:
    return run("dlq", "redrive", *options, sqs=sqs, lambda_=FakeLambda())


def fails(ran: Ran, sentence: str) -> bool:
    return ran.exit_code == 1 and sentence in ran.said


def unavailable(**_request: Any) -> Any:
    raise error("ServiceUnavailable", 503)


def refuse_the_first(system: System, monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """SQS refuses the first entry of each batch of this operation."""
    plain = getattr(system.sqs, operation)

    def partly(**request: Any) -> Any:
        first, *rest = request["Entries"]
        answer: Any = plain(**{**request, "Entries": rest}) if rest else {}
        return {**answer, "Failed": [{"Id": first["Id"], "SenderFault": False, "Code": "Busy"}]}

    monkeypatch.setattr(system.sqs, operation, partly)


def test_every_queue_can_be_named() -> None:
    assert [name.value for name in QueueName] == list(QUEUES)
    assert tuple(QUEUES.values()) == names.QUEUES


# list


def test_list_shows_metadata_whole_and_no_content(system: System) -> None:
    first = bury(system, "Publish", "Secret 1", reason="The message is not JSON.", kind="contract")
    system.clock.advance(1)
    second = bury(system, "Bulk", "Secret number 2")
    listed = run("dlq", "list", "--json")
    one, other = listed.json["messages"]
    assert one == {
        "queue": "publish",
        "message_id": first,
        "first_message_id": first,
        "first_sent_at": AT,
        "sent_at": AT,
        "kept_until": "2026-12-04T18:00:00.123Z",
        "receives": 1,
        "size": 8,
        "sha256": hashlib.sha256(b"Secret 1").hexdigest(),
        "kind": "contract",
        "reason": "The message is not JSON.",
    }
    assert (other["queue"], other["message_id"], other["kind"]) == ("bulk", second, "")
    assert listed.json["counts"] == {"publish": 1, "express": 0, "bulk": 1, "relation": 0}
    system.clock.advance(MOMENT)
    table = run("dlq", "list")
    assert table.exit_code == 0
    lines = table.stdout.partition("\n\n")[0].splitlines()  # those of the first letter
    fields = [line.partition(":")[0].strip() for line in lines]
    assert (fields[0], sorted(fields)) == ("queue", sorted(one))
    assert "          reason: The message is not JSON." in lines
    assert {f"first_message_id: {first}", f"          sha256: {one['sha256']}"} < set(lines)
    assert "Secret" not in table.stdout + listed.stdout


def test_repeated_listing_hides_and_loses_no_message(system: System) -> None:
    ids = bury_many(system, "Bulk", 25)
    for _ in range(12):  # more receives than any redrive policy allows
        rows = run("dlq", "list", "--queue", "bulk", "--json").json["messages"]
        assert {row["message_id"] for row in rows} == ids
        system.clock.advance(MOMENT)
    assert {record["messageId"] for record in shown(system, "BulkDlq")} == ids
    assert system.waiting("Bulk") == 0


def test_list_says_how_many_messages_are_beyond_its_limit(system: System) -> None:
    bury_many(system, "Bulk", 12)
    listed = run("dlq", "list", "--queue", "bulk", "--limit", "5")
    assert "about 12 messages, of which 5 are listed; --limit lists more." in listed.said
    assert "No dead letters" in run("dlq", "list", "--queue", "express").said


def test_bodies_are_shown_on_request_shortened_and_without_control_characters(
    system: System,
) -> None:
    bury(system, "Bulk", "[red]\x9b2J" + "x" * 200)  # SQS takes no escape character, but these
    (row,) = run("dlq", "list", "--bodies", "--json").json["messages"]
    assert row["body"] == "[red]\x9b2J" + "x" * 72
    system.clock.advance(MOMENT)
    table = run("dlq", "list", "--bodies").stdout
    assert "\x9b" not in table
    assert "[red]" in table


def test_a_letter_is_traced_to_the_message_of_its_sender_from_both_ways_into_the_queue(
    system: System, caplog: pytest.LogCaptureFixture
) -> None:
    """A worker rejects one, and SQS moves the other: both show what their senders were answered."""
    sent = {}
    for body in ("no JSON", json.dumps({"version": 1, "type": "fanout.plan", "fanout_id": "r"})):
        answer = system.sqs.send_message(QueueUrl=system.url("Publish"), MessageBody=body)
        sent[str(answer["MessageId"])] = hashlib.sha256(body.encode()).hexdigest()
    system.clock.advance(60)
    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(system.dynamodb, "batch_get_item", lambda **_: 1 / 0)
        system.pump("Publish")
    rows = run("dlq", "list", "--json").json["messages"]
    assert {row["first_message_id"]: row["sha256"] for row in rows} == sent
    assert {row["first_sent_at"] for row in rows} == {AT}
    by_worker, by_sqs = sorted(rows, key=lambda row: not row["kind"])
    assert by_worker["message_id"] not in sent
    assert by_sqs["message_id"] in sent
    assert times.to_ms(by_worker["kept_until"]) == times.to_ms(by_worker["sent_at"]) + 14 * DAY_MS
    assert times.to_ms(by_worker["sent_at"]) >= AT_MS + 60_000, "14 days from the rejection"
    assert times.to_ms(by_sqs["kept_until"]) == AT_MS + 14 * DAY_MS, "from the first send"
    lines: list[Any] = [each for each in caplog.records if hasattr(each, "first_message_id")]
    assert {line.first_message_id: line.sha256 for line in lines} == sent


# redrive, message by message


def test_a_redriven_post_keeps_its_group_and_is_delivered(system: System, old_sqs: Sqs) -> None:
    users = system.give_followers(3)
    system.publish()
    (record,) = system.receive("Publish")
    letter = bury(system, "Publish", record["body"], reason="It was broken.", group="ada")
    system.delete("Publish", record)
    done = redrive(old_sqs, "--json")
    assert done.json["moved"] == 1
    of_publish = {"queue": "publish", "moved": 1, "stayed": {}, "how": "loop"}
    assert done.json["queues"][0] == {**of_publish, "held": 0, "error": ""}
    (back,) = system.receive("Publish")
    assert back["attributes"]["MessageGroupId"] == "ada"
    carried = {name: each["stringValue"] for name, each in back["messageAttributes"].items()}
    assert carried == {
        "first_sent_at": str(AT_MS),
        "first_message_id": letter,
        "first_senders": record["attributes"]["SenderId"],
    }
    assert (system.waiting("PublishDlq"), system.waiting("Publish")) == (0, 1)
    system.clock.advance(1000)
    system.pump()
    assert system.reached() == users


def test_expired_posts_and_events_that_would_count_as_new_stay_visible_and_are_reported(
    system: System, old_sqs: Sqs
) -> None:
    week, hour = 7 * DAY_MS, DAY_MS // 24
    added = {"version": 1, "type": "follow.added", "user_id": "u", "publisher_id": "ada"}
    stay = [
        bury(system, "Publish", published(week)),
        bury(system, "Publish", published(None), first_sent_at=AT_MS - week),
        # Shortly before, too: the clock of SQS decides, and the letter is yet to be sent.
        bury(system, "Publish", added, first_sent_at=AT_MS - 28 * DAY_MS + hour),
    ]
    for body in (published(week - 1), published(0), published(None), "no JSON"):
        bury(system, "Publish", body)
    bury(system, "Publish", added, first_sent_at=AT_MS - 28 * DAY_MS + hour + 1)
    of_a_week = FakeLambda(retention_days=7)
    done = run("dlq", "redrive", "--queue", "publish", sqs=old_sqs, lambda_=of_a_week)
    assert "Moved 5 messages back." in done.stdout
    assert f"{stay[0]} publishes an expired post" in done.said
    assert "Left 2 expired posts in" in done.said
    assert {record["messageId"] for record in shown(system, "PublishDlq")} == set(stay)
    system.clock.advance(VISIBILITY_SECONDS)
    done = run("dlq", "redrive", "--json", sqs=old_sqs, lambda_=of_a_week)
    assert (done.json["moved"], done.json["stayed"]) == (0, {"expired": 2, "too old": 1})


def interrupt(*_arguments: Any, **_request: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.parametrize("by_id", [False, True])
def test_a_redrive_that_is_interrupted_says_what_it_moved_and_where_the_others_are(
    system: System, old_sqs: Sqs, by_id: bool
) -> None:
    ids = bury_many(system, "Publish", 13)
    old_sqs.before_send = lambda: old_sqs.batches and interrupt()
    done = redrive(old_sqs, *([*ids, "--json"] if by_id else ()))
    assert done.exit_code == 130
    assert (done.json["moved"] == 10) if by_id else (done.stdout == "Moved 10 messages back.\n")
    assert "Interrupted: run it again. Messages that were not moved are still in" in done.said
    assert len(shown(system, "PublishDlq")) == 3


def test_a_message_that_fails_again_during_the_redrive_is_not_moved_again(
    system: System, old_sqs: Sqs
) -> None:
    bury(system, "Publish", "first")
    old_sqs.before_send = lambda: bury(system, "Publish", "again")
    assert redrive(old_sqs, "--queue", "publish", "--json").json["moved"] == 1
    assert system.waiting("PublishDlq") == 1


def test_the_first_of_five_messages_is_moved_at_once_and_the_others_at_the_rate(
    system: System, old_sqs: Sqs, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(system, "Publish", 5)
    monkeypatch.setattr("fanfold_cli.dlq.redriving.time.monotonic", lambda: sum(slept))
    redrive(old_sqs, "--queue", "publish", "--rate", "2")
    assert sum(slept) == pytest.approx(4 / 2)


@pytest.mark.parametrize(("hidden", "there"), [(10, 10), (9, 12)])
def test_letters_that_somebody_else_holds_are_said_and_not_called_none(
    system: System, old_sqs: Sqs, hidden: int, there: int, tmp_path: Path
) -> None:
    bury_many(system, "Bulk", there)
    for _ in range(hidden):
        assert len(system.receive("BulkDlq", 1)) == 1
    held = f"SQS still counts about {hidden} letters of bulk that this command did not get"
    done = redrive(old_sqs, "--queue", "bulk")
    assert fails(done, held)
    assert "visible within ten minutes at the latest" in done.said
    assert run("dlq", "list", "--json").json["held"] == {"bulk": hidden}
    assert done.stdout == f"Moved {there - hidden} messages back.\n"
    assert redrive(old_sqs, "--queue", "bulk", "--json").json["queues"][0]["held"] == hidden
    drop = ("dlq", "drop", "--queue", "bulk", "--all", "--yes", "--to", str(tmp_path / "letters"))
    dropped = run(*drop, sqs=old_sqs, lambda_=FakeLambda())
    assert fails(dropped, held)
    assert dropped.stdout == "Dropped 0 letters.\n"
    system.clock.advance(VISIBILITY_SECONDS)
    assert redrive(old_sqs, "--queue", "bulk").stdout == f"Moved {hidden} messages back.\n"


def test_letters_that_are_visible_again_count_as_missed_and_those_that_were_read_do_not() -> None:
    for visible, hidden, missed in ((0, 15, 15), (15, 0, 15), (1, 3, 4), (0, 0, 0), (40, 0, 15)):
        for own in (0, 5):
            after = Count(visible + own, hidden)
            assert Count(20, 0).missed(5, after=after, still_there=own) == missed


@pytest.fixture
def one_too_many(system: System, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """SQS counts one letter that is not there, and each receive takes so many seconds."""

    def count(seconds: float) -> None:
        receives: list[int] = []
        plain = system.sqs.get_queue_attributes, system.sqs.receive_message

        def attributes(**request: Any) -> Any:
            answer: Any = plain[0](**request)
            visible = answer["Attributes"].get("ApproximateNumberOfMessages")
            if visible not in (None, "0"):
                answer["Attributes"]["ApproximateNumberOfMessages"] = str(int(visible) + 1)
            return answer

        def receive(**request: Any) -> Any:
            receives.append(1)
            assert len(receives) < 50, "it does not end"
            answer = plain[1](**request)
            system.clock.advance(seconds)
            return answer

        monkeypatch.setattr(system.sqs, "get_queue_attributes", attributes)
        monkeypatch.setattr(system.sqs, "receive_message", receive)

    return count


def test_a_redrive_ends_if_sqs_counts_one_too_many_and_staying_letters_come_again(
    system: System, old_sqs: Sqs, one_too_many: Callable[[float], None]
) -> None:
    for number in range(25):
        bury(system, "Publish", str(number), kind="contract", reason="No.")
    bury_many(system, "Publish", 3)
    one_too_many(letters.HIDDEN_SECONDS / 3 + 1)
    done = redrive(old_sqs, "--queue", "publish", "--json").json
    assert (done["moved"], done["stayed"]) == (3, {"contract": 25})


def test_a_listing_ends_where_sqs_counts_one_too_many_and_letters_come_round_again(
    system: System, one_too_many: Callable[[float], None]
) -> None:
    ids = bury_many(system, "Bulk", 25)
    one_too_many(letters.LIST_SECONDS / 3 + 1)
    rows = run("dlq", "list", "--queue", "bulk", "--json").json["messages"]
    assert {row["message_id"] for row in rows} == ids


def test_a_redrive_takes_ten_letters_a_call_but_no_more_than_a_megabyte(
    system: System, old_sqs: Sqs
) -> None:
    bury_many(system, "Bulk", 25)
    redrive(old_sqs, "--queue", "bulk")
    assert old_sqs.batches == [10, 10, 5]
    assert (system.waiting("Bulk"), system.waiting("BulkDlq")) == (25, 0)
    old_sqs.batches.clear()
    for _ in range(3):
        bury(system, "Express", "x" * (MAX_MESSAGE_BYTES // 2 - 100))
    redrive(old_sqs, "--queue", "express")
    assert old_sqs.batches == [1, 1, 1], "with their attributes, two are more than a megabyte"
    assert (system.waiting("Express"), system.waiting("ExpressDlq")) == (3, 0)


@pytest.mark.parametrize("by_id", [False, True])
def test_a_letter_that_sqs_refuses_of_a_batch_stays_and_the_others_are_moved(
    system: System, old_sqs: Sqs, monkeypatch: pytest.MonkeyPatch, by_id: bool
) -> None:
    ids = bury_many(system, "Bulk", 5)
    with monkeypatch.context() as broken:
        refuse_the_first(system, broken, "send_message_batch")
        done = redrive(old_sqs, *(sorted(ids) if by_id else ("--queue", "bulk")))
    assert fails(done, "The redrive of bulk stopped; run it again.")
    assert "SQS refused 1 message." in done.said
    assert done.stdout == "Moved 4 messages back.\n"
    assert system.waiting("Bulk") == 4
    (left,) = shown(system, "BulkDlq")
    assert left["messageId"] in ids
    system.clock.advance(VISIBILITY_SECONDS)
    assert redrive(old_sqs, "--queue", "bulk").stdout == "Moved 1 message back.\n"


def test_a_letter_that_went_back_and_is_not_deleted_is_said(
    system: System, old_sqs: Sqs, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(system, "Bulk", 2)
    refused = {"Failed": [{"Id": "0", "SenderFault": False, "Code": "Busy"}]}
    monkeypatch.setattr(system.sqs, "delete_message_batch", lambda **_: refused)
    done = redrive(old_sqs, "--queue", "bulk")
    assert done.stdout == "Moved 2 messages back.\n"
    assert "SQS did not delete 2 letters that went back: the next redrive moves" in done.said
    monkeypatch.setattr(system.sqs, "delete_message_batch", unavailable)
    system.clock.advance(letters.HIDDEN_SECONDS + 1)
    done = redrive(old_sqs, "--queue", "bulk")
    assert fails(done, "The redrive of bulk stopped; run it again.")
    assert done.stdout == "Moved 2 messages back.\n"


# redrive, by a move task of SQS


@pytest.fixture
def few_looped(monkeypatch: pytest.MonkeyPatch, slept: list[float]) -> None:
    """More than four orders are moved by a task."""
    monkeypatch.setattr("fanfold_cli.dlq.redriving.MAX_LOOPED", 4)


@pytest.mark.usefixtures("few_looped")
@pytest.mark.parametrize("is_refused", [False, True])
def test_ctrl_c_ends_a_move_task_or_says_that_it_goes_on_and_how_to_end_it(
    system: System, monkeypatch: pytest.MonkeyPatch, is_refused: bool
) -> None:
    sqs = Sqs(system)
    bury_many(system, "Bulk", 8)
    monkeypatch.setattr("fanfold_cli.dlq.move_tasks.time.sleep", interrupt)
    if is_refused:
        monkeypatch.setattr(sqs, "cancel_message_move_task", unavailable)
    done = redrive(sqs, "--queue", "bulk")
    assert done.exit_code == 130
    if is_refused:
        assert "SQS may go on moving the dead letters of bulk by itself." in done.said
        command = f"aws sqs cancel-message-move-task --region {REGION} --task-handle the-task"
        assert command in done.said
    else:
        assert sqs.cancelled == ["the-task"]
        assert "SQS was told to stop; it has moved about 4 messages of bulk." in done.said
        assert done.stdout == "Moved 4 messages back.\n"


@pytest.mark.usefixtures("few_looped")
def test_a_task_whose_progress_cannot_be_read_goes_on_and_that_is_said(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    sqs = Sqs(system)
    bury_many(system, "Bulk", 8)
    start, said = sqs.start_message_move_task, list[str]()

    def started(**request: Any) -> Any:
        monkeypatch.setattr(sqs, "list_message_move_tasks", unavailable)
        return start(**request)

    monkeypatch.setattr("fanfold_cli.dlq.move_tasks.say", said.append)
    monkeypatch.setattr(sqs, "start_message_move_task", started)
    assert fails(redrive(sqs, "--queue", "bulk"), "ServiceUnavailable")
    assert said[0].startswith("SQS may go on moving the dead letters of bulk by itself.")


@pytest.mark.usefixtures("few_looped")
@pytest.mark.parametrize("queue", ["Express", "Bulk", "Relation"])
def test_many_orders_are_moved_by_a_task_that_names_its_destination(
    system: System, slept: list[float], queue: str
) -> None:
    sqs = Sqs(system)
    bury_many(system, queue, 5)
    done = redrive(sqs, "--queue", queue.lower(), "--rate", "20", "--json")
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}"
    task = {"SourceArn": f"{arn}Dlq", "DestinationArn": arn, "MaxNumberOfMessagesPerSecond": 20}
    assert sqs.started == [task]
    assert done.json["moved"] == 5
    assert done.json["queues"][0]["how"] == "task"
    assert slept == [move_tasks.POLL_SECONDS] * 2
    assert system.waiting(queue) == 5


@pytest.mark.usefixtures("slept")
def test_events_are_never_moved_by_a_task_because_it_forgets_when_they_were_sent(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold_cli.dlq.redriving.MAX_LOOPED", 0)
    sqs = Sqs(system)
    bury(system, "Publish", published(0))
    assert redrive(sqs, "--json").json["moved"] == 1
    assert sqs.started == []


@pytest.mark.usefixtures("slept")
def test_a_failed_task_and_a_refused_one_are_reported(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold_cli.dlq.redriving.MAX_LOOPED", 0)
    monkeypatch.setattr("fanfold_cli.dlq.move_tasks.refuse_while_running", lambda *_: None)
    bury(system, "Bulk", "1")
    refused = Sqs(system, error("AccessDenied", 403))
    assert fails(redrive(refused), "AccessDenied")
    sqs = Sqs(system)
    failed: Any = {"Status": "FAILED", "FailureReason": "CouldNotDetermineDestination"}
    failed["ApproximateNumberOfMessagesMoved"] = 7
    monkeypatch.setattr(sqs, "list_message_move_tasks", lambda **_request: {"Results": [failed]})
    ran = redrive(sqs)
    assert fails(ran, "FAILED CouldNotDetermineDestination")
    assert ran.stdout == "Moved 7 messages back.\n"
    assert system.waiting("BulkDlq") == 1


@pytest.mark.usefixtures("slept")
def test_nothing_is_moved_from_empty_queues_or_without_a_mapping(system: System) -> None:
    sqs = Sqs(system)
    assert redrive(sqs).stdout == "There was nothing to move back: no dead letters were found.\n"
    assert sqs.started == []
    done = run("dlq", "redrive", sqs=sqs, lambda_=FakeLambda(mappings=0))
    assert fails(done, "has 0 event source mappings")


def test_few_orders_are_moved_one_by_one_so_that_what_breaks_the_contract_stays(
    system: System, slept: list[float]
) -> None:
    sqs = Sqs(system)
    bury_many(system, "Bulk", 2)
    bury(system, "Bulk", "gave up", reason="Too often.", kind="gave_up")
    broken = bury(system, "Bulk", "junk", reason="No.", kind="contract")
    done = redrive(sqs, "--queue", "bulk")
    assert "Moved 3 messages back." in done.stdout
    assert "Left 1 letter that breaks the contract in the dead-letter queue." in done.said
    assert "`fanfold dlq drop`" in done.said
    assert (sqs.started, slept) == ([], [])
    assert [record["messageId"] for record in shown(system, "BulkDlq")] == [broken]


@pytest.mark.parametrize("by_id", [False, True])
def test_a_redrive_that_stops_at_one_queue_goes_on_with_the_others_and_says_what_it_moved(
    system: System, monkeypatch: pytest.MonkeyPatch, by_id: bool
) -> None:
    sqs = Sqs(system)
    bodies = {"Publish": ("1", "2", "3"), "Bulk": ("4",), "Relation": ("5",)}
    letters = [bury(system, queue, body) for queue, some in bodies.items() for body in some]
    running = {"Results": [{"Status": "RUNNING"}]}
    monkeypatch.setattr(
        sqs,
        "list_message_move_tasks",
        lambda *, SourceArn, **_: running if "Bulk" in SourceArn else {"Results": []},  # noqa: N803
    )
    ran = redrive(sqs, *(letters if by_id else ()), "--json")
    assert fails(ran, "SQS is moving the dead letters of bulk right now")
    assert (ran.json["moved"], system.waiting("Publish"), system.waiting("Relation")) == (4, 3, 1)
    of_bulk = next(each for each in ran.json["queues"] if each["queue"] == "bulk")
    assert (of_bulk["moved"], "right now" in of_bulk["error"]) == (0, True)
    assert system.waiting("BulkDlq") == 1


@pytest.mark.parametrize("command", ["redrive", "restore"])
def test_a_letter_that_was_named_and_stays_is_a_failure(
    system: System, old_sqs: Sqs, tmp_path: Path, command: str
) -> None:
    expired, whole = bury(system, "Publish", published(RETENTION_MS)), bury(system, "Publish", "x")
    named: tuple[str, ...] = expired, whole
    if command == "restore":
        file = str(tmp_path / "letters")
        drop = ("dlq", "drop", *named, "--yes", "--to", file)
        assert run(*drop, sqs=old_sqs, lambda_=FakeLambda()).exit_code == 0
        named = (file,)
    ran = run("dlq", command, *named, sqs=old_sqs, lambda_=FakeLambda())
    assert fails(ran, "Left 1 expired post in")
    assert ran.stdout in ("Moved 1 message back.\n", "Sent 1 letter back.\n")
    assert system.waiting("Publish") == 1


# redrive by id


def test_named_letters_are_moved_unknown_ones_are_said_and_the_others_stay_visible(
    system: System, old_sqs: Sqs
) -> None:
    ids = sorted(bury_many(system, "Bulk", 25))
    other = bury(system, "Publish", "{}", group="ada")
    named = (ids[3], ids[17], other)
    done = redrive(old_sqs, "unknown", *named, "unknown", "--json")
    assert (done.exit_code, done.json["moved"], done.json["not_found"]) == (1, 3, ["unknown"])
    assert "No dead letter that can be read now has the id unknown." in done.said
    assert {each["how"] for each in done.json["queues"]} == {"loop"}
    left = {record["messageId"] for record in shown(system, "BulkDlq")}
    assert left == set(ids) - {*named}
    assert system.waiting("Bulk") == 2
    (record,) = system.receive("Publish")
    assert record["attributes"]["MessageGroupId"] == "ada"
    again = redrive(old_sqs, *named)
    assert (again.exit_code, again.stdout) == (1, "Moved 0 messages back.\n")
    system.clock.advance(VISIBILITY_SECONDS)
    assert redrive(old_sqs, ids[4]).exit_code == 0
