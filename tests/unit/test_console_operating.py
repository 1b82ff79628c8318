"""What an operator may run from the page: commands of `fanfold`, checked and confirmed."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from fanfold_cli.console import ExpectedError
from fanfold_console import operating
from fanfold_console.operating import COMMANDS, Operator
from fanfold_console.server import Forbidden, WrongRequest
from tests.unit.test_pages import parse

PLACE = "Fanfold-prod (account 123456789012, eu-central-1)"
CHANGING = sorted(name for name, command in COMMANDS.items() if command.changes)


@dataclass
class Shell:
    """Keeps what would be run."""

    ran: list[Sequence[str]] = field(default_factory=list)

    def __call__(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        self.ran.append(words)
        return subprocess.CompletedProcess([], 0, json.dumps({"moved": 3}), "Two stayed.\n")


def operator(shell: Shell, *, may_change: bool = True) -> Operator:
    return Operator(PLACE, ("--stack", "Fanfold-prod"), may_change, shell)


def content(name: str) -> dict[str, Any]:
    """The command with all that it takes."""
    values = {"queue": "bulk", "level": "3", "publisher": "alice"}
    given: dict[str, Any] = {"command": name}
    if COMMANDS[name].takes is not None:
        given["id"] = "an-id"
    if COMMANDS[name].options:
        given["options"] = {option: values[option] for option in COMMANDS[name].options}
    return given


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_exists_with_its_options(name: str) -> None:
    _, words = operator(Shell()).words(content(name))
    parse(words, is_whole=True)


def test_what_runs_is_what_the_question_has_shown_whatever_the_answer_says() -> None:
    shell = Shell()
    one = operator(shell)
    asked = one.act({"command": "dlq redrive", "options": {"queue": "bulk"}})
    shown = "fanfold dlq redrive --queue=bulk --stack Fanfold-prod"
    assert (asked["place"], asked["command"], asked["changes"]) == (PLACE, shown, True)
    assert shell.ran == []
    done = one.act({"run": asked["question"], "command": "fanout abandon --yes", "id": "post"})
    assert shell.ran == [["dlq", "redrive", "--queue=bulk", "--stack", "Fanfold-prod"]]
    assert (done["command"], done["succeeded"]) == (shown, True)
    assert (done["result"], done["said"]) == ({"moved": 3}, "Two stayed.")


def test_a_question_is_answered_once() -> None:
    shell = Shell()
    one = operator(shell)
    asked = one.act({"command": "dlq redrive"})
    one.act({"run": asked["question"]})
    with pytest.raises(ExpectedError, match="was answered already"):
        one.act({"run": asked["question"]})
    assert len(shell.ran) == 1


def test_a_question_that_another_one_has_replaced_runs_nothing() -> None:
    shell = Shell()
    one = operator(shell)
    harmless = one.act({"command": "fanout show", "id": "post"})
    harmful = one.act({"command": "fanout abandon --yes", "id": "post"})
    with pytest.raises(ExpectedError, match="another page has asked"):
        one.act({"run": harmless["question"]})
    assert shell.ran == []
    one.act({"run": harmful["question"]})
    assert shell.ran == [["fanout", "abandon", "--yes", "--stack", "Fanfold-prod", "--", "post"]]


@pytest.mark.parametrize("number", [0, 1, 2, "1", None, True])
def test_a_question_that_nobody_asked_runs_nothing(number: Any) -> None:
    shell = Shell()
    with pytest.raises(ExpectedError, match="Nothing was run"):
        operator(shell).act({"run": number})
    assert shell.ran == []


def test_a_command_that_does_not_end_is_told_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operating, "TIMEOUT_SECONDS", 0.01)
    one = Operator(PLACE, ("--stack", "Fanfold-prod"), True)
    asked = one.act({"command": "dlq list"})
    with pytest.raises(ExpectedError, match="run it in a terminal"):
        one.act({"run": asked["question"]})


@pytest.mark.parametrize("name", CHANGING)
def test_a_console_that_only_reads_changes_nothing(name: str) -> None:
    with pytest.raises(Forbidden, match="--operate"):
        operator(Shell(), may_change=False).act(content(name))


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - set(CHANGING)))
def test_a_console_that_only_reads_reads_all(name: str) -> None:
    assert operator(Shell(), may_change=False).act(content(name))["changes"] is False


def test_an_id_that_looks_like_an_option_is_an_id() -> None:
    _, words = operator(Shell()).words({"command": "fanout show", "id": "--home=x"})
    assert words == ["fanout", "show", "--stack", "Fanfold-prod", "--", "--home=x"]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"command": "dlq purge"},
        {"command": ["dlq", "list"]},
        {"command": "fanout show"},
        {"command": "fanout show", "id": ""},
        {"command": "fanout show", "id": ".."},
        {"command": "fanout show", "id": "a b"},
        {"command": "fanout show", "id": "a\n"},
        {"command": "fanout show", "id": 7},
        {"command": "fanout show", "id": "x", "options": {"home": "y"}},
        {"command": "fanout list", "id": "x"},
        {"command": "fanout list", "options": ["queue"]},
        {"command": "dlq list", "options": {"queue": "other"}},
        {"command": "dlq list", "options": {"limit": "9"}},
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
def test_what_no_command_takes_is_refused(given: dict[str, Any]) -> None:
    shell = Shell()
    with pytest.raises(WrongRequest):
        operator(shell).act(given)
    assert shell.ran == []
