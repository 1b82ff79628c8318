"""`fanfold dlq show|drop|restore`: a letter is read whole, and dropped without being lost."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fanfold import names
from fanfold.aws.dead_letters import MAX_MESSAGE_BYTES, DeadLetterQueue
from fanfold_cli.dlq.letters import HIDDEN_SECONDS, visible
from tests.commands import PLACE, FakeLambda, Ran, run, run_on, stack_with
from tests.integration.cli.test_cli_dlq import (
    MOMENT,
    Sqs,
    bury,
    bury_many,
    fails,
    interrupt,
    refuse_the_first,
    shown,
    unavailable,
)
from tests.service import AT, AT_MS, VISIBILITY_SECONDS, System, error

pytestmark = pytest.mark.usefixtures("folder")

# Whatever SQS takes: it refuses an escape character, but not the control characters above 127.
ODD = "a\x9b2J\u202eb\r\n[red]\N{GRINNING FACE} caf\u00e9 \\ud800"
ORDER = {"version": 1, "type": "fanout.plan", "fanout_id": "post-1"}
SETTLE = {"version": 1, "type": "relation.settle", "user_id": "u", "publisher_id": "ada"}
FOLLOW = {"version": 1, "type": "follow.added", "user_id": "u", "publisher_id": "ada"}
POST = {"version": 1, "type": "post.published", "publisher_id": "ada", "ref_id": "r"}


@pytest.fixture
def sqs(system: System) -> Sqs:
    """An SQS that knows move tasks, none of which has run."""
    return Sqs(system)


def dlq(sqs: Sqs, *arguments: str) -> Ran:
    return run("dlq", *arguments, sqs=sqs, lambda_=FakeLambda())


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def waiting(system: System) -> dict[str, int]:
    return {queue.name: system.waiting(f"{queue.name}Dlq") for queue in names.QUEUES}


# show


def test_show_prints_the_whole_body_with_visible_control_characters(
    system: System, sqs: Sqs
) -> None:
    bury_many(system, "Publish", 12)
    letter = bury(system, "Bulk", ODD + "x" * 5000, reason="No.\x90", kind="contract", group="ada")
    ran = dlq(sqs, "show", letter)
    assert ran.exit_code == 0
    assert "x" * 5000 in ran.stdout
    assert "a\\x9b2J\\u202eb\\r\n[red]\N{GRINNING FACE} caf\u00e9 \\ud800" in ran.stdout
    assert not {"\x9b", "\u202e", "\r", "\x90"} & set(ran.stdout)
    for value in (letter, AT, "contract", "ada", "bulk"):
        assert value in ran.stdout
    system.clock.advance(MOMENT)
    found = dlq(sqs, "show", letter, "--queue", "bulk", "--json").json
    assert found["body"] == ODD + "x" * 5000
    assert (found["kind"], found["group"], found["receives"]) == ("contract", "ada", 2)
    assert (found["sent_at"], found["first_sent_at"]) == (AT, AT)
    assert len(shown(system, "BulkDlq")) == 1
    assert len(shown(system, "PublishDlq")) == 12, "what was searched is visible again"


def test_half_a_surrogate_pair_is_shown_as_its_escape() -> None:
    assert visible("\ud800\x00") == "\\ud800\\x00"


@pytest.mark.parametrize("what", [("show",), ("drop", "--yes"), ("redrive",)])
def test_an_unknown_id_is_a_sentence_and_exit_code_1(
    system: System, sqs: Sqs, folder: Path, what: tuple[str, ...]
) -> None:
    ids = bury_many(system, "Relation", 11)
    ran = dlq(sqs, *what, "no-such-id")
    assert ran.exit_code == 1
    assert "No dead letter that can be read now has the id no-such-id." in ran.said
    assert {record["messageId"] for record in shown(system, "RelationDlq")} == ids
    assert list(folder.iterdir()) == []


# drop


def test_dropped_letters_are_in_a_private_file_and_can_be_restored(
    system: System, sqs: Sqs, folder: Path
) -> None:
    users = system.give_followers(2)
    post = bury(system, "Publish", POST, reason="Why.", kind="gave_up", group="ada")
    bury(system, "Bulk", "kept")
    system.clock.advance(5)
    done = dlq(sqs, "drop", post, "--to", "letters.jsonl", "--yes", "--json")
    nothing: Any = {"not_dropped": [], "not_found": [], "held": {}}
    assert done.json == {"dropped": 1, "file": "letters.jsonl", **nothing}
    assert waiting(system) == {"Publish": 0, "Express": 0, "Bulk": 1, "Relation": 0}
    assert len(shown(system, "BulkDlq")) == 1
    file = folder / "letters.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    (line,) = lines_of(file)
    attributes = line.pop("attributes")
    where = {"stack": PLACE, "queue": "publish", "id": post, "group": "ada"}
    assert line == {**where, "body": json.dumps(POST)}
    assert (attributes["first_sent_at"], attributes["kind"]) == (str(AT_MS), "gave_up")

    assert dlq(sqs, "restore", str(file)).stdout == "Sent 1 letter back.\n"
    (record,) = system.receive("Publish")
    assert record["attributes"]["MessageGroupId"] == "ada"
    assert record["messageAttributes"]["first_sent_at"]["stringValue"] == str(AT_MS)
    system.clock.advance(VISIBILITY_SECONDS)
    system.pump()
    assert system.reached("r") == users
    assert system.ledger("r").accepted_at == AT, "it counts from its first time"


def test_all_letters_of_a_queue_are_dropped_beyond_a_page(
    system: System, sqs: Sqs, folder: Path
) -> None:
    ids = bury_many(system, "Bulk", 25)
    bury_many(system, "Publish", 2)
    done = dlq(sqs, "drop", "--queue", "bulk", "--all", "--yes")
    (file,) = folder.iterdir()
    assert file.name == "dead-letters-2026-11-20T180000Z.jsonl"
    assert done.stdout == f"Dropped 25 letters; {file.name} holds them.\n"
    assert {line["id"] for line in lines_of(file)} == ids
    assert waiting(system) == {"Publish": 2, "Express": 0, "Bulk": 0, "Relation": 0}


@pytest.mark.parametrize("arguments", [(), ("--all",), ("--queue", "bulk"), ("an-id", "--all")])
def test_drop_wants_either_ids_or_a_whole_queue(
    system: System, sqs: Sqs, arguments: tuple[str, ...]
) -> None:
    bury(system, "Bulk", "1")
    ran = dlq(sqs, "drop", *arguments, "--yes")
    assert ran.exit_code == 2
    assert "--queue and --all" in ran.said
    assert len(shown(system, "BulkDlq")) == 1


def test_the_question_says_what_dropping_means(
    system: System, sqs: Sqs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fanfold_cli.terminal.has_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda _question, *, err: not err)
    for body in (ORDER, ORDER, FOLLOW, "junk"):
        bury(system, "Publish", body)
    for body in ({**POST, "ref_id": "#"}, {**ORDER, "fanout_id": "#"}):
        bury(system, "Publish", body, reason="No.", kind="contract")
    bury(system, "Publish", SETTLE)
    bury(system, "Publish", {**SETTLE, "type": "relation.backfill"})
    bury(system, "Publish", {"version": 1, "type": "relation.open", "publisher_id": "ada"})
    ran = dlq(sqs, "drop", "--queue", "publish", "--all")
    assert (ran.exit_code, ran.stdout, ran.said) == (1, "", "Nothing was changed.")
    assert len(shown(system, "PublishDlq")) == 9, "visible again at once"
    assert list(folder.iterdir()) == []
    system.clock.advance(VISIBILITY_SECONDS)
    said = dlq(sqs, "drop", "--queue", "publish", "--all", "--yes").said
    assert "2 letters (fanout.plan): nothing is lost: SWEEP resends" in said
    assert "1 letter (follow.added): a request that was accepted is lost for good" in said
    for type_ in ("fanout.plan", "post.published"):
        assert f"1 letter ({type_}): refused by the contract, so nothing was accepted" in said
    assert "1 letter (relation.settle): then run `fanfold doctor" in said
    assert "1 letter (relation.open): requests keep waiting: run `fanfold doctor" in said
    assert "1 letter (relation.backfill): a follower may miss posts from before" in said
    assert "1 letter (of no known type): nothing here reads such a message" in said
    assert waiting(system)["Publish"] == 0


def test_a_file_that_is_there_or_cannot_be_written_drops_nothing(
    system: System, sqs: Sqs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = bury(system, "Bulk", "1")
    (folder / "mine").write_text("mine")
    (folder / "link").symlink_to(folder / "elsewhere")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fanfold_cli.kept_file.os.fsync", full)
    for file, why in (
        ("mine", "is never overwritten"),
        ("link", "is never overwritten"),
        ("no/such/folder", "nothing was taken away"),
        ("full", "No space left on device"),
    ):
        assert fails(dlq(sqs, "drop", letter, "--to", file, "--yes"), why)
        assert len(shown(system, "BulkDlq")) == 1
        system.clock.advance(VISIBILITY_SECONDS)
    assert (folder / "mine").read_text() == "mine"
    assert {path.name for path in folder.iterdir()} == {"mine", "link"}


def test_file_and_folder_are_on_the_disk_before_anything_is_deleted(
    system: System, sqs: Sqs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter, steps, plain = bury(system, "Bulk", "1"), list[str](), os.fsync

    def fsync(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        steps.append("folder" if is_folder else f"file of {os.fstat(descriptor).st_size} bytes")
        plain(descriptor)

    delete = system.sqs.delete_message_batch

    def deleting(**request: Any) -> Any:
        steps.append("delete")
        return delete(**request)

    monkeypatch.setattr("fanfold_cli.kept_file.os.fsync", fsync)
    monkeypatch.setattr(system.sqs, "delete_message_batch", deleting)
    ran = dlq(sqs, "drop", letter, "--to", "file", "--yes")
    assert ran.stdout == "Dropped 1 letter; file holds it.\n"
    assert steps == [f"file of {(folder / 'file').stat().st_size} bytes", "folder", "delete"]


def test_letters_that_were_written_but_not_deleted_are_dropped_by_a_second_run(
    system: System, sqs: Sqs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = bury(system, "Publish", POST)
    with monkeypatch.context() as broken:
        broken.setattr(system.sqs, "delete_message_batch", unavailable)
        ran = dlq(sqs, "drop", letter, "--to", "first", "--yes")
    assert fails(ran, "Not all letters were dropped; first holds them all")
    system.clock.advance(MOMENT)
    assert dlq(sqs, "drop", letter, "--to", "second", "--yes").exit_code == 0
    assert waiting(system)["Publish"] == 0
    assert [line["id"] for file in ("first", "second") for line in lines_of(folder / file)] == (
        [letter, letter]
    )


def test_an_interrupt_says_whether_letters_were_dropped(
    system: System, sqs: Sqs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    letter = bury(system, "Publish", POST)
    for where, said in (
        ("fanfold_cli.dlq.dropping.write_file", "Interrupted: nothing was dropped."),
        ("fanfold_cli.dlq.letters.Held.delete", "Interrupted: file holds all letters"),
    ):
        with monkeypatch.context() as broken:
            broken.setattr(where, interrupt)
            ran = dlq(sqs, "drop", letter, "--to", "file", "--yes")
        assert (ran.exit_code, ran.stdout) == (130, "")
        assert said in ran.said
        system.clock.advance(MOMENT)
        assert waiting(system)["Publish"] == 1
    assert [line["id"] for line in lines_of(folder / "file")] == [letter]


@pytest.mark.parametrize("is_silent", [False, True])
def test_letters_of_which_sqs_does_not_say_that_they_are_deleted_are_named_and_not_counted(
    system: System, sqs: Sqs, monkeypatch: pytest.MonkeyPatch, is_silent: bool
) -> None:
    ids = bury_many(system, "Bulk", 12)
    if is_silent:
        monkeypatch.setattr(system.sqs, "delete_message_batch", lambda **_: {})
    else:
        refuse_the_first(system, monkeypatch, "delete_message_batch")
    done = dlq(sqs, "drop", "--queue", "bulk", "--all", "--yes", "--to", "letters")
    dropped = 0 if is_silent else 10
    said = f"Dropped {dropped} letters; letters holds them.\n"
    assert (done.exit_code, done.stdout) == (1, said)
    left = {record["messageId"] for record in shown(system, "BulkDlq")}
    assert (len(left), left <= ids) == (12 - dropped, True)
    assert "SQS did not delete " in done.said
    assert all(letter in done.said for letter in left)


def test_letters_that_were_dropped_before_the_time_was_over_are_counted(
    system: System, sqs: Sqs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury_many(system, "Bulk", 12)
    plain = DeadLetterQueue.delete_page

    def delete_page(queue: DeadLetterQueue, letters: Any) -> Any:
        deleted = plain(queue, letters)
        system.clock.advance(HIDDEN_SECONDS)
        return deleted

    monkeypatch.setattr(DeadLetterQueue, "delete_page", delete_page)
    ran = dlq(sqs, "drop", "--queue", "bulk", "--all", "--yes", "--to", "gone")
    assert fails(ran, "10 letters had been dropped. gone holds all letters")
    assert "Run the command again" in ran.said
    assert len((folder / "gone").read_text().splitlines()) == 12
    assert len(shown(system, "BulkDlq")) == 2


def test_letters_that_were_held_while_the_machine_slept_are_not_dropped(
    system: System, sqs: Sqs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its monotonic clock stands still meanwhile."""
    bury_many(system, "Bulk", 3)
    monkeypatch.setattr("fanfold.clock.monotonic", lambda: 7.0)

    def sleep(_question: str, *, err: bool) -> bool:
        system.clock.advance(HIDDEN_SECONDS)
        return err

    monkeypatch.setattr("fanfold_cli.terminal.has_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", sleep)
    ran = dlq(sqs, "drop", "--queue", "bulk", "--all")
    assert fails(ran, "visible to others again, so nothing more was done")
    assert list(folder.iterdir()) == []
    assert len(shown(system, "BulkDlq")) == 3


# restore


def test_a_letter_of_a_megabyte_and_odd_characters_comes_back_as_it_was(
    system: System, sqs: Sqs
) -> None:
    large, odd = "x" * MAX_MESSAGE_BYTES, ODD
    bury(system, "Bulk", large)
    bury(system, "Express", odd, group="ada")
    dlq(sqs, "drop", "--queue", "bulk", "--all", "--to", "large", "--yes")
    dlq(sqs, "drop", "--queue", "express", "--all", "--to", "odd", "--yes")
    assert waiting(system) == dict.fromkeys(waiting(system), 0)
    assert dlq(sqs, "restore", "large").exit_code == 0
    assert dlq(sqs, "restore", "odd").exit_code == 0
    (record,) = system.receive("Bulk")
    assert record["body"] == large
    assert record["messageAttributes"] == {}, "there is no room for one"
    (record,) = system.receive("Express")
    assert record["body"] == odd


# What SQS takes in no message, and what it takes as no group.
ODDS = ("\x00", "\x01", "\x1f", "\ud800", "\udfff", "\ufffe", "\uffff")
GROUPS = ("x" * 129, "a b", "\n", "\x7f", "caf\u00e9", "ada\n")
LINE = {
    "stack": PLACE,
    "queue": "bulk",
    "id": "1",
    "group": "",
    "attributes": {"first_sent_at": str(AT_MS)},
    "body": "x",
}


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("{", "it is not JSON"),
        ("", "it is not JSON"),
        ("[]", "it must be an object"),
        (json.dumps({**LINE, "more": 1}), "it must be an object"),
        (json.dumps({**LINE, "queue": "other"}), "'queue' must be one of publish, express"),
        (json.dumps({**LINE, "body": 1}), "all values must be strings"),
        (json.dumps({**LINE, "body": ""}), "'body' must have"),
        (json.dumps({**LINE, "body": "x" * (MAX_MESSAGE_BYTES + 1)}), "'body' must have"),
        *(
            (json.dumps({**LINE, "body": f"a{odd}"}), "'body' has a character that SQS")
            for odd in ODDS
        ),
        *((json.dumps({**LINE, "group": odd}), "'group' must be") for odd in (*ODDS, *GROUPS)),
        (json.dumps({**LINE, "id": ""}), "'id' must be the id of a message"),
        (json.dumps({**LINE, "id": "a b"}), "'id' must be the id of a message"),
        (json.dumps({**LINE, "attributes": []}), "'attributes' must be an object"),
        (json.dumps({**LINE, "attributes": {}}), "'first_sent_at'"),
        (json.dumps({**LINE, "attributes": {"first_sent_at": "-1"}}), "'first_sent_at'"),
    ],
)
def test_a_malformed_line_is_refused_by_number_before_anything_is_sent(
    system: System, sqs: Sqs, folder: Path, line: str, fault: str
) -> None:
    file = folder / "letters"
    whole = json.dumps(LINE)
    file.write_bytes("\n".join([whole, line, whole, ""]).encode("utf-8", "surrogateescape"))
    ran = dlq(sqs, "restore", str(file))
    assert fails(ran, f"{file}, line 2: ")
    assert fault in ran.said
    assert system.waiting("Bulk") == 0


def test_letters_of_another_stack_are_refused_before_anything_is_sent(
    system: System, sqs: Sqs, folder: Path
) -> None:
    """Of another name, another account, or another region."""
    letter = bury(system, "Publish", POST)
    dlq(sqs, "drop", letter, "--to", "letters", "--yes")
    mine = stack_with(sqs=sqs, lambda_=FakeLambda())
    for other in (
        replace(mine, stack="Fanfold-prod"),
        replace(mine, account="210987654321"),
        replace(mine, region="eu-west-1"),
    ):
        ran = run_on(other, "dlq", "restore", "letters")
        assert fails(ran, f"letters, line 1: it was written of {PLACE}, and this is {other.place}.")
        assert system.waiting("Publish") == 0
    (line,) = lines_of(folder / "letters")
    del line["stack"]
    (folder / "letters").write_text(json.dumps(line))
    assert fails(dlq(sqs, "restore", "letters"), "an object with the fields stack, queue")


def test_a_file_that_is_missing_or_too_long_is_refused_and_blank_lines_at_its_end_are_no_letters(
    system: System, sqs: Sqs, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fails(dlq(sqs, "restore", "nothing"), "cannot be read: No such file")
    (folder / "letters").write_text(f"{json.dumps(LINE)}\n\n \n")
    assert dlq(sqs, "restore", "letters").stdout == "Sent 1 letter back.\n"
    assert system.waiting("Bulk") == 1
    monkeypatch.setattr("fanfold_cli.dlq.dropping.MAX_LETTERS", 2)
    (folder / "long").write_text((json.dumps(LINE) + "\n") * 3)
    assert fails(dlq(sqs, "restore", "long"), "Cut it with `split -l 2`")


def test_a_restore_that_stops_says_at_which_line_and_may_be_run_again(
    system: System, sqs: Sqs, folder: Path
) -> None:
    lines = [{**LINE, "body": f"{number:02}"} for number in range(25)]
    (folder / "letters").write_text("".join(json.dumps(line) + "\n" for line in lines))
    sent: list[int] = []

    def fail() -> None:
        sent.append(1)
        if len(sent) == 2:
            raise error("ServiceUnavailable", 503)

    sqs.before_send = fail
    ran = dlq(sqs, "restore", "letters")
    assert fails(ran, "Lines 11 to 20 were not all sent back, and nothing after them. Run the")
    assert dlq(sqs, "restore", "letters", "--json").json == {"sent": 25, "stayed": {}}
    bodies = [record["body"] for record in shown(system, "Bulk")]
    every = [str(line["body"]) for line in lines]
    assert sorted(bodies) == sorted([*every, *every[:10]])


def test_letters_that_would_have_no_effect_are_not_restored(system: System, sqs: Sqs) -> None:
    bury(system, "Publish", POST)
    bury(system, "Publish", "junk", reason="No.", kind="contract")
    dlq(sqs, "drop", "--queue", "publish", "--all", "--to", "letters", "--yes")
    system.clock.advance(31 * 86_400)
    ran = dlq(sqs, "restore", "letters")
    assert "Left 1 expired post in letters." in ran.said
    assert [record["body"] for record in shown(system, "Publish")] == ["junk"]


# all of them


@pytest.mark.parametrize("then", ["holds them", "deletes them", "deletes them, uncounted"])
@pytest.mark.parametrize("command", ["list", "redrive", "drop --all --yes"])
def test_letters_that_somebody_else_takes_after_the_count_are_said_unless_they_are_gone(
    system: System, sqs: Sqs, monkeypatch: pytest.MonkeyPatch, command: str, then: str
) -> None:
    bury_many(system, "Bulk", 20)

    def take() -> None:
        sqs.before_receive = lambda: None
        for record in (*system.receive("BulkDlq", 10), *system.receive("BulkDlq", 5)):
            if then != "holds them":
                system.delete("BulkDlq", record)
        if then == "deletes them, uncounted":
            monkeypatch.setattr(DeadLetterQueue, "count", lambda _: unavailable())

    sqs.before_receive = take
    ran = dlq(sqs, *command.split(), "--queue", "bulk")
    is_said = "about 15 letters of bulk that this command did not get" in ran.said
    assert is_said == (ran.exit_code == 1) == (then != "deletes them")
    assert "--limit" not in ran.said


WHAT = ["drop {} --to file --yes", "restore letters", "redrive --queue bulk", "redrive {}"]


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("status", ["RUNNING", "CANCELLING", "COMPLETED"])
def test_nothing_is_changed_while_sqs_moves_the_letters(
    system: System, sqs: Sqs, folder: Path, monkeypatch: pytest.MonkeyPatch, what: str, status: str
) -> None:
    monkeypatch.setattr(
        sqs, "list_message_move_tasks", lambda **_: {"Results": [{"Status": status}]}
    )
    letter = bury(system, "Bulk", "1")
    (folder / "letters").write_text(json.dumps(LINE) + "\n")
    ran = dlq(sqs, *what.format(letter).split())
    if status == "COMPLETED":
        assert ran.exit_code == 0
        return
    assert fails(ran, "SQS is moving the dead letters of bulk right now")
    assert len(shown(system, "BulkDlq")) == 1
    assert system.waiting("Bulk") == 0
    assert not (folder / "file").exists()


@pytest.mark.parametrize("what", ["show", "drop", "redrive"])
def test_a_queue_with_too_many_letters_is_not_searched(
    system: System, sqs: Sqs, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.setattr("fanfold_cli.dlq.letters.MAX_LETTERS", 2)
    letter = bury_many(system, "Publish", 3).pop()
    ran = dlq(sqs, what, letter, *(["--yes"] if what == "drop" else []))
    assert fails(ran, "holds about 3 letters, too many to search")
    assert "fanfold dlq redrive --queue publish" in ran.said
    assert len(shown(system, "PublishDlq")) == 3
    system.clock.advance(VISIBILITY_SECONDS)
    ran = dlq(sqs, "redrive", "--queue", "publish")
    assert ran.stdout == "Moved 3 messages back.\n", "a whole queue has no limit"


def test_a_search_that_fails_lets_go_of_what_it_found(system: System, sqs: Sqs) -> None:
    bury_many(system, "Bulk", 25)
    receives = iter((dict, dict, unavailable))
    sqs.before_receive = lambda: next(receives)()
    ran = dlq(sqs, "drop", "--queue", "bulk", "--all", "--yes")
    assert fails(ran, "The dead letters cannot be read, so nothing was dropped")
    assert len(shown(system, "BulkDlq")) == 25
