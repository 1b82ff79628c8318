"""A command says what it waits for, once that takes long, and says it once."""

import importlib
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from rich.console import Console
from typer.testing import CliRunner

from fanfold_cli import aws, progress
from fanfold_cli.app import app
from fanfold_cli.local import engine
from fanfold_cli.local.home import Home
from tests.unit.test_cli_home import state_of

LONG = 0.4


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    # Otherwise the first wait would end while that is still imported.
    importlib.import_module("fanfold_cli.drawing")
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", LONG / 4)


def waiting() -> None:
    with progress.waiting_for("a friend"):
        time.sleep(LONG)


def test_a_long_wait_is_one_line_on_stderr_if_nobody_has_said_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting()
    assert capsys.readouterr() == ("", "Waiting for a friend.\n")
    with progress.waiting_for("a friend", is_said=True):
        time.sleep(LONG)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 60.0)
    waiting()
    assert capsys.readouterr() == ("", "")


def test_only_the_outer_of_two_waits_is_said_and_the_next_one_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress.waiting_for("the whole journey"):
        waiting()
    assert capsys.readouterr().err == "Waiting for the whole journey.\n"
    with progress.progress_bar("Moving", total=1, unit="messages"):
        waiting()
    assert "friend" not in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt), progress.waiting_for("a friend"):
        raise KeyboardInterrupt
    with ThreadPoolExecutor(2) as threads:
        for each in [threads.submit(waiting) for _ in range(2)]:
            each.result()
    assert capsys.readouterr().err == ""
    waiting()
    assert capsys.readouterr().err == "Waiting for a friend.\n"


def test_a_bar_that_is_full_at_once_shows_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    for seconds, is_shown in ((0.0, False), (1.2, True)):
        with progress.progress_bar("Moving", total=4, unit="messages") as bar:
            bar.advance(2)
            time.sleep(seconds)
            bar.advance(2)
        assert ("/s" in capsys.readouterr().err) is is_shown


def test_a_terminal_gets_a_spinner_that_leaves_nothing_behind() -> None:
    script = (
        "import time; from fanfold_cli import drawing, progress\n"
        "progress.PATIENCE_SECONDS = 0.1\n"
        "with progress.waiting_for('[a] friend', is_said=True): time.sleep(1)"
    )
    ours, theirs = pty.openpty()
    ran = subprocess.run(
        [sys.executable, "-P", "-c", script],
        stderr=theirs,
        stdout=subprocess.PIPE,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert ran.stdout == b""
    assert "Waiting for [a] friend" in shown
    show_cursor, erase_line = "\x1b[?25h", "\x1b[2K"
    assert show_cursor in shown
    assert shown.rstrip().endswith(erase_line)


@pytest.mark.parametrize("endpoint", [None, aws.LocalEndpoint("http://127.0.0.1:4566", "key")])
def test_a_slow_call_says_its_name_on_aws_and_on_the_engine(
    capsys: pytest.CaptureFixture[str], endpoint: aws.LocalEndpoint | None
) -> None:
    def answer(**_: Any) -> AWSResponse:
        time.sleep(LONG)
        return AWSResponse("", 200, HTTPHeaders(), Mock(**{"stream.return_value": [b"{}"]}))

    sqs = aws.client("sqs", endpoint, "us-east-1")
    sqs.meta.events.register("before-send", answer)
    sqs.list_queues()
    assert capsys.readouterr() == ("", "Waiting for SQS (ListQueues).\n")


def test_local_down_says_what_it_waits_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.claim()
    home.write_state(replace(state_of(os.getpid()), pid_mark="ended", supervisor_mark="ended"))
    monkeypatch.setattr(engine, "stop", lambda *_: time.sleep(LONG))
    ran = CliRunner().invoke(app, ["local", "down", "--home", str(tmp_path)])
    assert ran.stderr.startswith("Waiting for the engine and its functions to end.\n")
    assert ran.stdout == ""


def test_ctrl_c_at_a_question_is_an_interrupt_and_the_end_of_stdin_a_refusal() -> None:
    script = (
        "import typer; from fanfold_cli.console import ExpectedError, ask\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def drop() -> None:\n"
        "    try: ask('Drop 1 letter?', place='Here', yes=False)\n"
        "    except ExpectedError: raise typer.Exit(1)\n"
        "app()"
    )
    for end, exit_code, said in ((False, 130, "Interrupted: nothing was changed."), (True, 1, "")):
        ours, terminal = pty.openpty()
        with subprocess.Popen(
            [sys.executable, "-P", "-c", script],
            stdin=terminal,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Where pytest runs in the background of a shell, Ctrl-C is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        ) as asking:
            assert asking.stderr is not None
            assert b"Here: Drop" in asking.stderr.read(10)
            time.sleep(LONG)
            if end:
                os.write(ours, b"\x04")  # Ctrl-D
            else:
                asking.send_signal(signal.SIGINT)
            rest = asking.stderr.read().decode()
            assert asking.wait() == exit_code
            assert said in rest
        for each in (ours, terminal):
            os.close(each)


def test_a_bar_that_is_piped_says_again_and_again_how_far_it_is_and_one_on_a_terminal_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    has_spoken = threading.Event()

    def hear(sentence: str) -> None:
        said.append(sentence)
        if len(said) == 2:
            has_spoken.set()

    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    monkeypatch.setattr(progress, "say", hear)
    with progress.progress_bar("Following", total=2_000, unit="follows") as bar:
        bar.reach(1_200)
        assert has_spoken.wait(60)
    assert said[-1] == "Following: 1,200 of 2,000 follows."
    said.clear()
    monkeypatch.setattr(Console, "is_terminal", True)
    with progress.progress_bar("Following", total=2, unit="follows"):
        time.sleep(0.1)
    assert said == []


def test_what_a_bar_counts_agrees_with_its_total(capsys: pytest.CaptureFixture[str]) -> None:
    for total, unit, shown in (
        (1, "edges", "edge"),
        (1, "entries", "entry"),
        (1, "write units", "write unit"),
        (2, "edges", "edges"),
        (0, "deliveries", "deliveries"),
        (None, "edges", "edges"),
    ):
        with progress.progress_bar("Counting", total=total, unit=unit) as bar:
            bar.advance(1)
        words = capsys.readouterr().err.split()
        counted = words[words.index(next(word for word in words if "/" in word)) + 1 :]
        assert " ".join(counted).startswith(shown)
        assert f"{shown}s" not in words
