"""`fanfold shards`, `channels` and `doctor` without a stack: bad arguments, asking."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fanfold_cli import terminal
from fanfold_cli.app import app
from fanfold_cli.terminal import ExpectedError, WrongValue


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


@pytest.mark.parametrize("stdin", [io.StringIO("y\n"), None], ids=["piped", "none"])
def test_a_pipe_answers_no_question(
    stdin: io.StringIO | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", stdin)
    with pytest.raises(ExpectedError, match="there is no terminal to ask on"):
        terminal.ask("Sure?", place="here", yes=False)


def test_a_lost_connection_is_transient_for_the_command_line() -> None:
    code = """
import fanfold_cli.aws
from botocore.exceptions import ConnectTimeoutError
from fanfold.aws.retries import is_transient
assert is_transient(ConnectTimeoutError(endpoint_url="https://dynamodb"))
"""
    # In another process: in this one, other tests have registered those errors.
    subprocess.run([sys.executable, "-P", "-c", code], check=True)
