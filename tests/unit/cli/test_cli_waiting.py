"""A command says what it waits for, once that takes long, and says it once."""

import io
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest
import typer
from botocore.awsrequest import AWSResponse
from botocore.compat import HTTPHeaders
from rich.console import Console

from fanfold_cli import aws, progress
from fanfold_cli.terminal import INTERRUPTED, ExpectedError, ask
from tests.timers import Clock

LONG = progress.PATIENCE_SECONDS


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock.instead(monkeypatch)


class Terminal(io.StringIO):
    """Keeps what it shows; its user types Ctrl-D, or raises an error by Ctrl-C."""

    def __init__(self, error: type[BaseException] | None = None) -> None:
        super().__init__()
        self.error = error

    def isatty(self) -> bool:
        return True

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        if self.error:
            raise self.error
        return super().readline(size)


def waiting(clock: Clock) -> None:
    with progress.waiting_for("a friend"):
        clock.sleep(LONG)


def test_a_long_wait_is_one_line_on_stderr_if_nobody_has_said_it(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    waiting(clock)
    assert capsys.readouterr() == ("", "Waiting for a friend.\n")
    with progress.waiting_for("a friend", is_said=True):
        clock.sleep(LONG)
    with progress.waiting_for("a friend"):
        clock.sleep(LONG - 0.1)
    clock.sleep(LONG)
    assert capsys.readouterr() == ("", "")


def test_only_the_outer_of_two_nested_waits_is_announced(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.waiting_for("the whole journey"):
        waiting(clock)
    assert capsys.readouterr().err == "Waiting for the whole journey.\n"
    with progress.progress_bar("Moving", total=1, unit="messages"):
        waiting(clock)
    assert "friend" not in capsys.readouterr().err
    with pytest.raises(KeyboardInterrupt), progress.waiting_for("a friend"):
        raise KeyboardInterrupt
    with ThreadPoolExecutor(2) as threads:
        for each in [threads.submit(waiting, clock) for _ in range(2)]:
            each.result()
    assert capsys.readouterr().err == ""
    waiting(clock)
    assert capsys.readouterr().err == "Waiting for a friend.\n"


def test_a_terminal_gets_a_spinner_that_leaves_nothing_behind(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.waiting_for("[a] friend", is_said=True):
        clock.sleep(LONG)
    shown = terminal.getvalue()
    assert capsys.readouterr().out == ""
    assert "Waiting for [a] friend" in shown
    show_cursor, erase_line = "\x1b[?25h", "\x1b[2K"
    assert show_cursor in shown
    assert shown.rstrip().endswith(erase_line)


@pytest.mark.parametrize("endpoint", [None, aws.LocalEndpoint("http://127.0.0.1:4566", "key")])
def test_a_slow_call_says_its_name_on_aws_and_on_the_engine(
    clock: Clock, capsys: pytest.CaptureFixture[str], endpoint: aws.LocalEndpoint | None
) -> None:
    def answer(**_: Any) -> AWSResponse:
        clock.sleep(LONG)
        return AWSResponse("", 200, HTTPHeaders(), Mock(**{"stream.return_value": [b"{}"]}))

    sqs = aws.client("sqs", endpoint, "us-east-1")
    sqs.meta.events.register("before-send", answer)
    sqs.list_queues()
    assert capsys.readouterr() == ("", "Waiting for SQS (ListQueues).\n")


def test_ctrl_c_at_a_question_is_an_interrupt_and_the_end_of_stdin_a_refusal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(KeyboardInterrupt))
    with pytest.raises(typer.Exit) as end:
        ask("Drop 1 letter?", place="Here", yes=False)
    assert end.value.exit_code == INTERRUPTED
    said = capsys.readouterr().err
    assert said.startswith("Here: Drop 1 letter?")
    assert said.endswith("\nInterrupted: nothing was changed.\n")
    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(ExpectedError, match="Nothing was changed; --yes answers"):
        ask("Drop 1 letter?", place="Here", yes=False)


def is_telling() -> bool:
    """Whether a thread says again and again how far a bar is."""
    return any(each.name.endswith("(tell)") for each in threading.enumerate())


def test_a_bar_that_is_piped_says_again_and_again_how_far_it_is_and_one_on_a_terminal_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str] = []
    has_spoken = threading.Event()

    def hear(sentence: str) -> None:
        said.append(sentence)
        if said.count("Following: 1,200 of 2,000 follows.") == 2:
            has_spoken.set()

    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "say", hear)
    with progress.progress_bar("Following", total=2_000, unit="follows") as bar:
        bar.reach(1_200)
        assert has_spoken.wait(60)
        assert is_telling()
    assert not is_telling()
    monkeypatch.setattr(Console, "is_terminal", True)
    with progress.progress_bar("Following", total=2, unit="follows"):
        assert not is_telling()
