"""The state of a local engine: what is running, and what only seems to be."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanfold_cli.console import ExpectedError
from fanfold_cli.local import deploy, engine, processes
from fanfold_cli.local import home as placements
from fanfold_cli.local.home import CHECKOUT, MARKER, EngineState, Home
from fanfold_cli.main import app
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


def with_files_of_somebody(directory: Path) -> Path:
    """A directory that others made, with names in it that an engine's home has too."""
    for name in ("engine", "deployed"):
        (directory / name).mkdir(parents=True)
        (directory / name / "precious").write_text("mine")
    return directory


def files_below(directory: Path) -> list[str]:
    """What is in a directory, by its paths."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.mark.parametrize("command", ["up", "down"])
def test_a_directory_of_somebody_else_is_refused_and_left_alone(
    tmp_path: Path, command: str, alive: EngineState
) -> None:
    theirs = Home(with_files_of_somebody(tmp_path))
    theirs.write_state(alive)
    before = files_below(tmp_path)
    act = deploy.bring_up if command == "up" else deploy.take_down
    with pytest.raises(ExpectedError, match="is not a home of the local engine"):
        act(theirs)
    assert files_below(tmp_path) == before


def test_an_engine_never_starts_in_a_directory_of_somebody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_can_bind", lambda _port: True)
    theirs = with_files_of_somebody(tmp_path)
    with pytest.raises(ExpectedError, match="is not a home of the local engine"):
        engine.start(Home(theirs), lifetime_seconds=1, port=4566)
    assert (theirs / "engine" / "precious").exists()


def test_an_engine_that_ends_takes_nothing_of_somebody_else_along(
    tmp_path: Path, alive: EngineState
) -> None:
    theirs = Home(with_files_of_somebody(tmp_path))
    engine.stop(theirs, replace(alive, pid_mark="gone", supervisor_mark="gone"))
    assert (theirs.data / "precious").exists()
    assert (theirs.deployed / "precious").exists()


@pytest.mark.parametrize("name", [".", "new/er"])
def test_an_empty_or_absent_directory_becomes_ours(tmp_path: Path, name: str) -> None:
    home = Home(tmp_path / name)
    home.claim()
    assert home.is_ours()
    (home.path / "engine.log").touch()
    home.claim()


def test_down_in_an_empty_directory_leaves_it_empty(tmp_path: Path) -> None:
    assert not deploy.take_down(Home(tmp_path))
    assert files_below(tmp_path) == []


def test_down_deletes_the_data_of_our_own_home(tmp_path: Path, alive: EngineState) -> None:
    home = Home(tmp_path)
    home.claim()
    with_files_of_somebody(tmp_path)
    home.write_state(replace(alive, pid_mark="gone", supervisor_mark="gone"))
    deploy.take_down(home)
    assert files_below(tmp_path) == [MARKER, "lock"]


@pytest.mark.parametrize("file", ["state.json", "engine.log"])
def test_the_home_of_a_checkout_from_before_the_marker_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setattr(placements, "DEFAULT", tmp_path)
    assert not Home(tmp_path).is_ours()
    (tmp_path / file).touch()
    assert Home(tmp_path).is_ours()


def test_an_empty_home_is_none() -> None:
    assert Home.choose("").path == CHECKOUT / ".fanfold"


@pytest.mark.parametrize("name", ["file", "file/x", "/proc/x", "~nobody-of-this-name/x"])
def test_up_in_a_home_that_cannot_be_is_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    named = str(tmp_path / name) if name.startswith("file") else name
    ran = CliRunner().invoke(app, ["local", "up", "--home", named])
    assert isinstance(ran.exception, ExpectedError)


@pytest.mark.parametrize("name", ["file", "file/x", "/proc/x", "~nobody-of-this-name/x"])
def test_down_in_a_home_that_cannot_be_is_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    named = str(tmp_path / name) if name.startswith("file") else name
    ran = CliRunner().invoke(app, ["local", "down", "--home", named])
    assert isinstance(ran.exception, ExpectedError) or "No engine is running" in ran.stderr


@pytest.mark.parametrize("port", ["-1", "0", "80", "65536", "99999"])
def test_a_port_that_no_engine_can_have_is_refused(tmp_path: Path, port: str) -> None:
    ran = CliRunner().invoke(app, ["local", "up", "--home", str(tmp_path), "--port", port])
    assert ran.exit_code == 2
    assert "Invalid value for '--port'" in ran.stderr
    assert files_below(tmp_path) == []
