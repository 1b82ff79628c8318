"""`fanfold shards`, `channels` and `doctor` without a stack: estimates, bad arguments, asking."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from contextlib import nullcontext

import pytest
from typer.testing import CliRunner

from fanfold.follows import ring
from fanfold_cli import terminal
from fanfold_cli.app import app
from fanfold_cli.publishers.shards import Level, estimated
from fanfold_cli.terminal import ExpectedError, WrongValue


def test_the_edges_of_a_shard_are_estimated_from_the_density_at_its_start() -> None:
    chance = random.Random(1)
    for level, shard in ((0, 0), (2, 0), (2, 3)):
        width = ring.RING_SIZE >> level
        edges = sorted(shard * width + chance.randrange(width) for _ in range(100_000))
        reached = f"{edges[9_999]:016x}"
        found = estimated(10_000, reached, level=level, shard=shard)
        assert found == pytest.approx(100_000, rel=0.05)
    assert Level(1, [0, 0]).skew is None


def test_an_invalid_publisher_id_and_a_level_other_than_a_natural_number_are_refused() -> None:
    for command, given in (
        ("shards show", "a#b"),
        ("shards show", ""),
        ("shards grow --level 1", "a b"),
        ("channels add", "a#b"),
        ("channels demote", "#ada"),
        ("doctor --publisher", "a#b"),
    ):
        raised = CliRunner().invoke(app, [*command.split(), given]).exception
        assert isinstance(raised, WrongValue)
        assert str(raised).startswith(f"'{given}' is not a valid id; use 1 to 128 characters")
    for level in ("-1", "x", "1.5", ""):
        for command in ("grow ada", "static"):
            ran = CliRunner().invoke(app, ["shards", *command.split(), "--level", level])
            assert ran.exit_code == 2
            assert "--level" in ran.stderr


@pytest.mark.parametrize("answer", ["y\n", "n\n", ""])
def test_a_question_leaves_nothing_on_stdout(
    answer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(answer))
    monkeypatch.setattr("fanfold_cli.terminal.has_terminal", lambda: True)
    with nullcontext() if answer == "y\n" else pytest.raises(ExpectedError):
        terminal.ask("Sure?", place="Fanfold-prod (account 1, here)", yes=False)
    asked = capsys.readouterr()
    assert (asked.out, asked.err) == ("", "Fanfold-prod (account 1, here): Sure? [y/N]: ")


@pytest.mark.parametrize("stdin", [io.StringIO("y\n"), None], ids=["piped", "none"])
def test_a_pipe_answers_no_question(
    stdin: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(ExpectedError, match="there is no terminal to ask on"):
        terminal.ask("Sure?", place="here", yes=False)


def test_the_help_of_the_doctor_says_what_it_costs() -> None:
    shown = CliRunner().invoke(app, ["doctor", "--help"]).stdout
    text = " ".join(shown.replace("│", " ").split())
    assert "minutes, and about $0.30, per million follows" in text


def test_a_lost_connection_is_transient_for_the_command_line() -> None:
    code = """
import fanfold_cli.aws
from botocore.exceptions import ConnectTimeoutError
from fanfold.aws.retries import is_transient
assert is_transient(ConnectTimeoutError(endpoint_url="https://dynamodb"))
"""
    # In another process: in this one, other tests have registered those errors.
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
