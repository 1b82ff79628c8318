"""The state of a local engine: what is running, and what only seems to be."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fanfold_cli import processes
from fanfold_cli.console import ExpectedError
from fanfold_cli.home import CHECKOUT, EngineState, Home
from fanfold_cli.stack import Deployment


def state_of(pid: int, mark: str) -> EngineState:
    """The state of an engine that is this process."""
    return EngineState(
        pid=pid,
        pid_mark=mark,
        supervisor_pid=pid,
        supervisor_mark=mark,
        port=4566,
        endpoint="http://127.0.0.1:4566",
        started_at="2026-11-20T18:00:00+00:00",
        ends_at="2026-11-21T02:00:00+00:00",
    )


@pytest.fixture
def alive() -> EngineState:
    """The state of an engine that runs: this test is its process."""
    mark = processes.start_mark(os.getpid())
    assert mark is not None
    return state_of(os.getpid(), mark)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home that nothing has run in."""
    return Home(tmp_path)


def test_a_written_state_is_read_back(home: Home, alive: EngineState) -> None:
    home.write_state(alive)
    assert home.read_state() == alive


def test_a_home_without_a_state_runs_nothing(home: Home) -> None:
    assert home.running() is None


def test_an_engine_that_lives_is_running(home: Home, alive: EngineState) -> None:
    home.write_state(alive)
    assert home.running() == alive


def test_a_process_number_that_was_given_away_again_is_not_our_engine(
    home: Home, alive: EngineState
) -> None:
    home.write_state(replace(alive, pid_mark="another start"))
    assert home.running() is None


def test_an_engine_that_has_ended_is_not_running(home: Home) -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    mark = processes.start_mark(process.pid)
    assert mark is not None
    home.write_state(state_of(process.pid, mark))
    assert home.running() is not None
    process.communicate(b"\n")
    assert home.running() is None


def test_a_damaged_state_file_counts_as_none(home: Home) -> None:
    home.state_file.write_text("{")
    assert home.read_state() is None


def test_a_state_of_another_version_still_names_its_engine(home: Home, alive: EngineState) -> None:
    home.write_state(alive)
    raw = json.loads(home.state_file.read_text())
    home.state_file.write_text(json.dumps({**raw, "of_another_version": 1}))
    assert home.read_state() == alive


def test_the_named_directory_comes_before_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FANFOLD_HOME", str(tmp_path / "environment"))
    assert Home.choose(tmp_path / "named").path == tmp_path / "named"
    assert Home.choose().path == tmp_path / "environment"
    monkeypatch.delenv("FANFOLD_HOME")
    assert Home.choose().path == CHECKOUT / ".fanfold"


def test_a_deployment_without_an_engine_says_what_to_do(home: Home) -> None:
    with pytest.raises(ExpectedError, match="fanfold local up"):
        Deployment.local(home)


def test_an_engine_without_a_deployment_says_what_to_do(home: Home, alive: EngineState) -> None:
    home.write_state(alive)
    with pytest.raises(ExpectedError, match="nothing is deployed"):
        Deployment.local(home)
