"""What operators' commands do at three in the night: interrupted, twice, by two at once.

`TABLE` has a cell for each of these and each command that changes something or hides letters. A
cell names the test that shows it, or says why there is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import pytest

from fanfold_cli.app import ENTRIES, GROW, OPERATE, START, USE
from fanfold_cli.terminal import ExpectedError
from tests.commands import PLACE, FakeLambda, Ran, Stack, run_on, stack_with
from tests.integration.cli.test_cli_channels import stack as with_channels
from tests.integration.cli.test_cli_dlq import Sqs, bury, fails
from tests.integration.cli.test_cli_fanout import accept
from tests.integration.cli.test_cli_pause import FakeLambda as Lanes
from tests.service import System

pytestmark = pytest.mark.usefixtures("folder")

TESTS = Path(__file__).resolve().parents[2]

# Commands of operators that only read, and hold nothing.
READ_ONLY = {
    "console",  # it runs the others, as they stand
    "fanout show",
    "fanout watch",
    "fanout list",
    "cost",
    "shards show",
    "channels list",
    "status",
}

# What each command with --stack needs beside it.
READS: tuple[str, ...] = ("fanout show x", "fanout watch x", "fanout list")
READS += ("dlq list", "dlq show x")
READS += ("doctor --whole", "audit --sample 1", "pause --show", "shards show x", "channels list")
READS += ("status",)
CHANGES: tuple[str, ...] = ("seed --edges {file}", "smoke", "publish hello --user ada")
CHANGES += ("edit x hello --user ada",)
CHANGES += ("retract x --user ada", "follow x --user ada", "unfollow x --user ada")
CHANGES += ("mute x --user ada", "unmute x --user ada", "token --user ada")
CHANGES += ("approve x --user ada", "remove x --user ada", "private on --user ada")
CHANGES += ("block x --user ada", "unblock x --user ada")
# These sign in a user, who is made if there is none.
CHANGES += ("timeline --user ada", "unread --user ada", "requests --user ada")
CHANGES += ("fanout resend x", "fanout abandon x --yes", "dlq redrive", "dlq drop x --yes")
CHANGES += ("dlq restore {file}", "doctor --whole --repair", "doctor --put-back {file}")
CHANGES += ("audit --post x --repair",)
CHANGES += ("pause", "resume", "shards grow x --level 1", "shards static --level 1")
CHANGES += ("shards dynamic", "channels add x --yes", "channels demote x --yes")

ASKED = "test_a_question_names_stack_account_and_region"
PIPED = "test_a_pipe_answers_no_question_and_changes_nothing"
CTRL_C = "test_ctrl_c_at_a_question_is_an_interrupt_and_the_end_of_stdin_a_refusal"
HELD = "test_letters_that_somebody_else_holds_are_said_and_not_called_none"
NO_LETTERS = "- it takes no letters"
NO_QUESTION = "- it asks nothing"
FIRST = "test_a_command_that_changes_something_names_the_stack_first"
NO_PLACE = "- it changes nothing"
NO_HOLD = "- it holds nothing that others get while the machine sleeps"


class Row(NamedTuple):
    """A command: what happens when it is interrupted, runs twice, beside another one, and so on."""

    interrupted: str
    twice: str
    two_at_once: str
    wrong_stack: str
    hidden: str = NO_LETTERS
    piped: str = NO_QUESTION
    asleep: str = NO_HOLD


# A command that asks first, but for what happens twice, and beside another one.
ASKS = Row(CTRL_C, "", "", ASKED, piped=PIPED)
MODE = ASKS._replace(
    twice="test_static_keeps_all_publishers_at_a_level_until_dynamic",
    two_at_once=(
        "- one write: the later one is in force, and each command says the mode that it set"
    ),
)

TABLE: dict[str, Row] = {
    "fanout resend": Row(
        "test_a_resend_that_stops_half_way_may_be_run_again",
        "test_of_a_complete_delivery_nothing_is_listed_and_nothing_resent",
        "test_resend_opens_no_delivery_that_was_planned_meanwhile",
        FIRST,
    ),
    "fanout abandon": Row(
        "test_abandon_that_stops_half_way_is_counted_and_may_be_run_again",
        "test_abandon_ends_deliveries_counts_them_and_can_be_repeated",
        "test_abandon_recognises_its_own_change_when_the_answer_was_lost",
        ASKED,
        piped=PIPED,
    ),
    "dlq list": Row(
        "- whatever it hides comes back within half a minute",
        "test_repeated_listing_hides_and_loses_no_message",
        "test_letters_that_somebody_else_takes_after_the_count_are_said_unless_they_are_gone",
        NO_PLACE,
        hidden="test_letters_that_somebody_else_takes_after_the_count_are_said_unless_they_are_gone",
        asleep="test_a_listing_ends_where_sqs_counts_one_too_many_and_letters_come_round_again",
    ),
    "dlq show": Row(
        "- whatever it hides comes back within ten minutes",
        "test_show_prints_the_whole_body_with_visible_control_characters",
        "test_an_unknown_id_is_a_sentence_and_exit_code_1",
        NO_PLACE,
        hidden="test_an_unknown_id_is_a_sentence_and_exit_code_1",
        asleep="- it shows what it has read, and changes nothing",
    ),
    "dlq redrive": Row(
        "test_ctrl_c_ends_a_move_task_or_says_that_it_goes_on_and_how_to_end_it",
        "- the simulation redrives again and again, and breaks the order of send and delete",
        HELD,
        FIRST,
        hidden=HELD,
        asleep="test_a_redrive_by_id_that_slept_moves_nothing",
    ),
    "dlq drop": Row(
        "test_an_interrupt_says_whether_letters_were_dropped",
        "test_letters_that_were_written_but_not_deleted_are_dropped_by_a_second_run",
        HELD,
        ASKED,
        hidden=HELD,
        piped=PIPED,
        asleep="test_letters_that_were_held_while_the_machine_slept_are_not_dropped",
    ),
    "dlq restore": Row(
        "test_a_restore_that_stops_says_at_which_line_and_may_be_run_again",
        "test_a_restore_that_stops_says_at_which_line_and_may_be_run_again",
        "- the same as twice: it only sends",
        "test_letters_of_another_stack_are_refused_before_anything_is_sent",
        hidden="- it reads a file, and no letters of a queue",
    ),
    "doctor": Row(
        "test_a_repair_that_stops_has_written_what_it_took_away",
        "test_an_interrupted_repair_says_what_it_has_done_and_can_be_run_again",
        "test_a_follow_that_comes_before_its_edge_is_taken_away_is_kept",
        "test_a_file_of_another_stack_or_no_such_file_puts_nothing_back",
        asleep="- each difference is read again before it is repaired",
    ),
    "audit": Row(
        "- an entry is written whole, and the next audit misses what is left",
        "test_a_repair_writes_what_is_missing_and_the_ledger_counts_it",
        "- an entry overwrites itself",
        FIRST,
    ),
    "pause": Row(
        "test_an_interrupt_says_how_each_lane_is",
        "test_a_second_pause_of_the_same_name_keeps_the_reason_and_the_end_of_the_first_until_then",
        "test_a_lane_that_another_command_switches_meanwhile_is_not_called_as_it_was",
        FIRST,
    ),
    "resume": Row(
        "test_an_interrupt_says_how_each_lane_is",
        "test_only_the_chosen_lanes_that_must_change_are_switched",
        "test_a_resume_asks_again_where_somebody_has_paused_while_it_asked",
        "test_a_resume_asks_where_another_one_has_paused_or_before_the_time_is_over",
        piped=PIPED,
    ),
    "shards grow": ASKS._replace(
        twice="test_grow_never_lowers_and_can_be_repeated",
        two_at_once="test_grow_goes_on_from_growths_that_come_between_unless_there_are_too_many",
    ),
    "shards static": MODE,
    "shards dynamic": MODE,
    "channels add": ASKS._replace(
        twice="test_add_can_be_repeated",
        two_at_once="test_add_goes_on_from_channels_that_come_between_unless_there_are_too_many",
        asleep="test_the_last_place_may_be_taken_while_add_asks",
    ),
    "channels demote": ASKS._replace(
        twice="test_demote_can_be_repeated_and_moves_no_date",
        two_at_once="test_demote_goes_on_where_another_flips_the_channel_unless_too_often",
    ),
}


def commands(*panels: str) -> Iterator[tuple[str, Any]]:
    for entry in ENTRIES.values():
        if entry.panel in panels:
            inner = getattr(entry.load(), "commands", None) or {"": entry.load()}
            yield from ((f"{entry.name} {name}".rstrip(), found) for name, found in inner.items())


def test_every_command_of_operators_that_changes_something_is_in_the_table() -> None:
    known = dict(commands(OPERATE, GROW))
    assert set(TABLE) == known.keys() - READ_ONLY
    assert known.keys() >= READ_ONLY


def test_each_cell_is_a_test_or_says_why_it_cannot_be() -> None:
    files = [path for folder in ("unit", "integration") for path in (TESTS / folder).rglob("*.py")]
    tests = {name for file in files for name in re.findall(r"^def (\w+)", file.read_text(), re.M)}
    for command, row in TABLE.items():
        for column, cell in row._asdict().items():
            assert cell.startswith("- ") or cell in tests, f"{command}, {column}"


@pytest.fixture
def hurt(system: System) -> None:
    """Something to act on, for each command that asks."""
    accept(system, "open")
    bury(system, "Bulk", "1")
    system.promote("bea")
    system.publishers.set_static_level(4)


def test_every_command_with_a_stack_is_known_to_change_something_or_not() -> None:
    on_stacks = {
        name
        for name, command in commands(START, USE, OPERATE, GROW)
        if any("--stack" in parameter.opts for parameter in command.params)
    }
    tried = {
        name
        for name in on_stacks
        for line in (*READS, *CHANGES)
        if f"{line} ".startswith(f"{name} ")
    }
    assert tried | {"console"} == on_stacks  # which names it on its page


@pytest.mark.parametrize("line", [*READS, *CHANGES])
def test_a_command_that_changes_something_names_the_stack_first(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On stderr: stdout has nothing but the result."""
    monkeypatch.setattr(Stack, "client", Mock(side_effect=ExpectedError("It is unreachable.")))
    (file := tmp_path / "file").write_text("publisher,follower\nada,bob\n")
    ran = run_on(stack_with(), *line.format(file=file).split(), "--json")
    assert ran.stderr.startswith(f"On {PLACE}:\n") == (line in CHANGES)
    assert PLACE not in ran.stdout


QUESTIONS = [
    ("fanout abandon open", "Abandon 1 delivery?"),
    ("dlq drop --queue bulk --all", "Drop 1 letter?"),
    ("resume", "Resume publish, express, bulk anyway?"),
    ("shards grow ada --level 5", "Grow 'ada' from level 0 to level 5?"),
    ("shards static --level 2", "Set level 2 for all?"),
    ("shards dynamic", "End the static level?"),
    ("channels add ada", "Put the posts of 'ada' into a channel?"),
    ("channels demote bea", "Deliver the posts of 'bea' to each follower again?"),
]


def typed(system: System, command: str, stdin: str | None = None) -> Ran:
    words = command.split()
    if words[0] == "channels":
        return run_on(with_channels(), *words, stdin=stdin)
    lambda_: Any = Lanes("Disabled") if words[0] == "resume" else FakeLambda()
    ran = run_on(stack_with(sqs=Sqs(system), lambda_=lambda_), *words, stdin=stdin)
    if words[0] == "resume":
        assert lambda_.asked == []
    return ran


@pytest.mark.usefixtures("hurt")
@pytest.mark.parametrize(("command", "question"), QUESTIONS)
def test_a_question_names_stack_account_and_region(
    system: System, command: str, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def confirm(text: str, *, err: bool) -> bool:
        asked.append(text)
        return not err

    monkeypatch.setattr("fanfold_cli.terminal.has_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", confirm)
    before = system.dump()
    ran = typed(system, command)
    assert (ran.exit_code, ran.stdout, ran.said) == (1, ran.stdout, "Nothing was changed.")
    assert asked == [f"{PLACE}: {question}"]
    assert system.dump() == before


@pytest.mark.usefixtures("hurt")
@pytest.mark.parametrize("command", [command for command, _ in QUESTIONS])
def test_a_pipe_answers_no_question_and_changes_nothing(system: System, command: str) -> None:
    before = system.dump()
    ran = typed(system, command, stdin="y\n" * 3)
    assert fails(ran, "there is no terminal to ask on. --yes answers the question.")
    assert system.dump() == before
    (letter,) = system.receive("BulkDlq")
    assert letter["attributes"]["ApproximateReceiveCount"] == "1", "it was not even looked for"


def test_a_redrive_by_id_that_slept_moves_nothing(
    system: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The monotonic clock of a machine stands still while it sleeps."""
    letter = bury(system, "Bulk", "1")
    monkeypatch.setattr("fanfold.clock.monotonic", lambda: 7.0)
    monkeypatch.setattr(
        "fanfold_cli.dlq.move_tasks.refuse_while_running", lambda *_: system.clock.advance(600)
    )
    ran = run_on(stack_with(sqs=Sqs(system), lambda_=FakeLambda()), "dlq", "redrive", letter)
    assert fails(ran, "visible to others again, so nothing more was done")
    assert (system.waiting("Bulk"), system.waiting("BulkDlq")) == (0, 1)
