"""What an operator may run from the page: commands of `fanfold`, checked and confirmed."""

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fanfold_cli.console import opening, operating
from fanfold_cli.console.operating import COMMANDS, Operator
from fanfold_cli.console.server import Forbidden, WrongRequest
from fanfold_cli.terminal import ExpectedError
from tests.e2e.clients import eventually
from tests.unit.house.test_pages import parse

PLACE = "Fanfold-prod (account 123456789012, eu-central-1)"


NOTES_ITS_WORDS = """
import json, sys
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(sys.argv[2:]) + "\\n")
print('{"moved": 3}')
print("Two stayed.", file=sys.stderr)
"""
# Ends by Ctrl-C alone, and says what it has done.
WORKS_ON = """
import pathlib, sys, time
try:
    pathlib.Path(sys.argv[1]).write_text("begun")
    time.sleep(600)
except KeyboardInterrupt:
    sys.exit("Interrupted: 3 of 9 were moved.")
"""
HANGS = """
import pathlib, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
pathlib.Path(sys.argv[1]).write_text("begun")
time.sleep(600)
"""


@dataclass
class Shell:
    """A program in place of `fanfold`, which keeps what it was started with in a file."""

    file: Path
    source: str = NOTES_ITS_WORDS

    @property
    def program(self) -> tuple[str, ...]:
        return (sys.executable, "-P", "-c", self.source, str(self.file))

    @property
    def ran(self) -> list[list[str]]:
        return list(map(json.loads, self.file.read_text().splitlines())) if self.has_run else []

    @property
    def has_run(self) -> bool:
        return self.file.exists()


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path / "ran")


def operator(shell: Shell, *, may_change: bool = True) -> Operator:
    return Operator(PLACE, ("--stack", "Fanfold-prod"), may_change, shell.program)


def content(name: str) -> dict[str, Any]:
    """The command with all that it takes."""
    values = {"queue": "bulk", "level": "3", "publisher": "alice"}
    given: dict[str, Any] = {"command": name}
    if COMMANDS[name].takes is not None:
        given["id"] = "an-id"
    if COMMANDS[name].options:
        given["options"] = {option: values[option] for option in COMMANDS[name].options}
    return given


def ran(one: Operator, command: str) -> dict[str, Any]:
    """What became of a command that was asked about and confirmed."""
    return dict(one.act({"run": one.act({"command": command})["question"]}))


def test_each_command_exists_with_its_options(shell: Shell) -> None:
    for name in COMMANDS:
        _, words = operator(shell).words(content(name))
        parse(words, is_whole=True)
    # An id that looks like an option is an id.
    _, words = operator(shell).words({"command": "fanout show", "id": "--home=x"})
    assert words == ["fanout", "show", "--stack", "Fanfold-prod", "--", "--home=x"]


def test_what_runs_is_what_the_question_has_shown_whatever_the_answer_says_and_once(
    shell: Shell,
) -> None:
    one = operator(shell)
    asked = one.act({"command": "dlq redrive", "options": {"queue": "bulk"}})
    shown = "fanfold dlq redrive --queue=bulk --stack Fanfold-prod"
    assert (asked["place"], asked["command"], asked["changes"]) == (PLACE, shown, True)
    assert shell.ran == []
    answer = {"run": asked["question"], "command": "fanout abandon --yes", "id": "post"}
    done = one.act(answer)
    assert shell.ran == [["dlq", "redrive", "--queue=bulk", "--stack", "Fanfold-prod", "--json"]]
    assert (done["command"], done["succeeded"]) == (shown, True)
    assert (done["result"], done["said"]) == ({"moved": 3}, "Two stayed.")
    with pytest.raises(ExpectedError, match="was answered already"):
        one.act(answer)
    assert len(shell.ran) == 1


def test_a_question_that_another_one_has_replaced_runs_nothing(shell: Shell) -> None:
    one = operator(shell)
    harmless = one.act({"command": "fanout show", "id": "post"})
    harmful = one.act({"command": "fanout abandon --yes", "id": "post"})
    with pytest.raises(ExpectedError, match="a later one has replaced it"):
        one.act({"run": harmless["question"]})
    assert shell.ran == []
    one.act({"run": harmful["question"]})
    words = ["fanout", "abandon", "--yes", "--stack", "Fanfold-prod", "--json", "--", "post"]
    assert shell.ran == [words]


def test_an_unknown_or_closed_question_runs_nothing(shell: Shell) -> None:
    one = operator(shell)
    for number in (0, 1, 2, "1", None, True):
        with pytest.raises(ExpectedError, match="Nothing was run"):
            one.act({"run": number})
    question = one.act({"command": "dlq redrive"})["question"]
    one.close()
    with pytest.raises(ExpectedError, match="Nothing was run"):
        one.act({"run": question})
    assert not shell.has_run


def test_a_command_that_takes_too_long_is_ended_with_advice(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operating, "TIMEOUT_SECONDS", 0.01)
    shell.source = WORKS_ON
    done = ran(operator(shell), "dlq list")
    assert not done["succeeded"]
    assert "run it in a terminal." in done["said"]


def test_what_a_command_says_is_read_whatever_the_terminal_is(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "latin-1")
    shell.source = "import sys; sys.exit('caf\u00e9')"
    assert ran(operator(shell), "dlq list")["said"] == "caf\u00e9"


@pytest.mark.parametrize(
    ("source", "patience", "said"),
    [
        (WORKS_ON, 60.0, "Interrupted: 3 of 9 were moved."),
        (HANGS, 0.1, "It did not end and was killed: what it has begun in AWS may go on."),
    ],
    ids=["ends", "hangs"],
)
def test_a_command_ends_with_the_console_and_says_what_it_did(
    shell: Shell,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    source: str,
    patience: float,
    said: str,
) -> None:
    monkeypatch.setattr(operating, "END_SECONDS", patience)
    shell.source = source
    one = operator(shell)
    question = one.act({"command": "dlq redrive"})["question"]
    # As in the background of a shell, which has SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with opening.ended_by_signals(), ThreadPoolExecutor(1) as threads:
            answer = threads.submit(one.act, {"run": question})
            eventually(lambda: shell.has_run, patience=30)
            os.kill(os.getpid(), signal.SIGINT)
            one.close()
    finally:
        signal.signal(signal.SIGINT, before)
    done = answer.result()
    assert (done["succeeded"], done["said"]) == (False, said)
    assert capsys.readouterr().err == (
        f"Ended with the console: fanfold dlq redrive --stack Fanfold-prod\n{said}\n"
    )


def test_a_console_that_only_reads_reads_all_and_changes_nothing(shell: Shell) -> None:
    reading = operator(shell, may_change=False)
    for name, command in COMMANDS.items():
        if command.changes:
            with pytest.raises(Forbidden, match="--operate"):
                reading.act(content(name))
        else:
            assert reading.act(content(name))["changes"] is False


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"command": "dlq purge"},
        {"command": ["dlq", "list"]},
        {"command": "fanout show"},
        *({"command": "fanout show", "id": given} for given in ("", "..", "a b", "a\n", 7)),
        {"command": "fanout show", "id": "x", "options": {"home": "y"}},
        {"command": "fanout list", "id": "x"},
        {"command": "fanout list", "options": ["queue"]},
        {"command": "dlq list", "options": {"queue": "other"}},
        {"command": "dlq show", "id": "--all"},
        {"command": "dlq drop --yes"},
        {"command": "doctor"},
        {"command": "doctor", "options": {"publisher": "--whole --repair"}},
        {"command": "shards grow --yes", "id": "alice"},
        {"command": "shards grow --yes", "id": "alice", "options": {"level": "-1"}},
        {"command": "shards grow --yes", "id": "alice", "options": {"level": "\u0663"}},
    ],
    ids=str,
)
def test_a_value_that_no_command_accepts_is_refused(shell: Shell, given: dict[str, Any]) -> None:
    with pytest.raises(WrongRequest):
        operator(shell).act(given)
    assert shell.ran == []
