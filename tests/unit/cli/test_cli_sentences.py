"""Invalid input of a user is answered with a sentence that helps."""

import gzip
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import boto3
import pytest
from typer import Typer
from typer.testing import CliRunner

from fanfold_cli import aws
from fanfold_cli.app import app
from fanfold_cli.commands import preflight
from fanfold_cli.follows import graph
from fanfold_cli.terminal import ExpectedError
from proof.aws_verify.__main__ import app as aws_verify

GZIPPED = gzip.compress(b"publisher,follower\n" + b"a,b\n" * 1000, mtime=0)


UTF_16 = "publisher,follower\na,b\n".encode("utf-16")

# A result with an arrow, of whichever command.
PRINTS_AN_ARROW = """
from fanfold_cli import app, terminal, main
app.app = lambda: terminal.print_result("\\u00e9 \\u2192")
main.main()
"""
# A command that meets two rows of one kind that can never be.
BREAKS = """
from fanfold import invariants
from fanfold_cli import app, main
app.app = lambda: [
    invariants.broken("channel_key", publisher_id=each) for each in ("ada\\n", "bob")
]
main.main()
"""


def failure(*arguments: str) -> str:
    ran = CliRunner().invoke(app, list(arguments))
    assert isinstance(ran.exception, ExpectedError)
    return str(ran.exception)


def test_an_invalid_user_is_refused_before_the_engine_is_looked_up(tmp_path: Path) -> None:
    for user in ("a#b", "ali ce", "é", "x" * 129, ""):
        for command, option in (("token", "--user"), ("console", "--reader")):
            said = failure(command, option, user, "--home", str(tmp_path))
            assert f"{option} must be 1 to 128 letters, digits and _ . : | @ + = -" in said


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("edges.csv", b"", "is empty"),
        ("edges.csv", b"publisher;follower\na;b\n", "put commas between the columns"),
        ("edges.csv", b"publisher, follower\na,b\n", "without spaces around them"),
        ("edges.csv", b"publisher,follower,follower\na,b,c\n", "names a column twice"),
        ("edges.csv", b"publisher,follower\nx,y\na\n", r"line 3: it must have 2 values"),
        ("edges.csv", b"publisher,follower\nx,y\na,b,c\n", r"line 3: it must have 2 values"),
        ("edges.csv", b'publisher,follower\nx,y\na,"b\nc,d\n', r"line \d: .* must be ids"),
        ("edges.csv", GZIPPED, r"Then its name must end in \.gz"),
        ("edges.csv.gz", GZIPPED[:10] + b"\xff" * 20 + GZIPPED[30:], "cannot be read as CSV"),
        ("edges.csv.gz", gzip.compress(UTF_16, mtime=0), "not text in UTF-8(?!.*must end in)"),
    ],
)
def test_a_file_that_cannot_be_read_is_answered_with_its_fault(
    tmp_path: Path, name: str, content: bytes, sentence: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ExpectedError, match=sentence):
        graph.read(tmp_path / name)


@pytest.mark.parametrize(
    "arguments",
    [
        (app, "preflight", "-c", "stage=dev"),
        (app, "fanout", "list", "--stack", "Fanfold-dev"),
        (aws_verify, "Fanfold-verify", "--yes"),
    ],
)
def test_without_credentials_a_sentence_says_what_to_do_before_anything_is_done(
    monkeypatch: pytest.MonkeyPatch, arguments: tuple[Typer, *tuple[str, ...]]
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setattr(aws, "_session", boto3.Session)
    monkeypatch.setattr(preflight, "synthesize", lambda _: pytest.fail("It was synthesized."))
    command, *words = arguments
    ran = CliRunner().invoke(command, words)
    assert isinstance(ran.exception, ExpectedError)
    assert "There are no AWS credentials: set AWS_PROFILE" in str(ran.exception)
    assert ran.output == ""


@pytest.mark.parametrize("region", ["eu-central-1", None])
@pytest.mark.parametrize("command", ["preflight -c stage=dev", "console --stack Fanfold-dev"])
def test_a_mistyped_profile_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, command: str, region: str | None
) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    if region:
        monkeypatch.setenv("AWS_REGION", region)
    monkeypatch.setenv("AWS_PROFILE", "tpyo")
    monkeypatch.setattr(aws, "_session", aws.own_session)
    said = failure(*command.split())
    assert "(tpyo) could not be found: AWS_PROFILE names it." in said


def test_a_latin_1_terminal_shows_other_characters_as_escapes() -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-c", PRINTS_AN_ARROW],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"\xe9 \\u2192\n", b"")


def test_a_broken_invariant_that_a_command_meets_is_said_once() -> None:
    ran = subprocess.run(
        [sys.executable, "-P", "-c", BREAKS], capture_output=True, text=True, check=True
    )
    assert (ran.stdout, ran.stderr) == (
        "",
        "An invariant is broken (channel_key, publisher_id 'ada '): "
        "A channel is in the head under its publisher's hash. "
        "'A broken invariant' in docs/operations.md says what to do.\n",
    )


def test_the_version_is_that_of_the_package() -> None:
    ran = CliRunner().invoke(app, ["--version"])
    assert (ran.exit_code, ran.stdout) == (0, f"fanfold {version('fanfold')}\n")


def run(*words: str, stdout: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-m", "fanfold_cli", *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [(["--help"], 0), (["dlq", "drop", "-h"], 0), (["cost"], 141), (["cost", "--json"], 141)],
)
def test_a_closed_pipe_ends_with_the_exit_code_of_shells_and_help_does_not_fail(
    words: list[str], exit_code: int
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ran = run(*words, stdout=writer)
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (exit_code, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a file that is full")
def test_output_that_cannot_be_written_is_a_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        ran = run("--help", stdout=full)
    assert ran.returncode == 1
    assert ran.stderr == "The output could not be written: No space left on device.\n"
