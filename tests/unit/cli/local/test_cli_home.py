"""The home of a local engine: which engine runs in it, and which directories may be one."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from fanfold_cli import progress
from fanfold_cli.app import app
from fanfold_cli.local import deploy, engine, processes
from fanfold_cli.local.cdk import CDK_VARIABLE, Cdk
from fanfold_cli.local.home import CHECKOUT, MARKER, EngineState, Home
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError, WrongValue
from tests.timers import Clock


def state_of(pid: int) -> EngineState:
    """The state of an engine that is the process `pid`."""
    mark = processes.start_mark(pid)
    assert mark is not None
    return EngineState(
        pid=pid,
        pid_mark=mark,
        supervisor_pid=pid,
        supervisor_mark=mark,
        port=4566,
        endpoint="http://127.0.0.1:4566",
        access_key="test",
        started_at="2026-11-20T18:00:00+00:00",
        ends_at="2026-11-21T02:00:00+00:00",
    )


@pytest.fixture
def alive() -> EngineState:
    """The state of an engine that runs: the process of this test."""
    return state_of(os.getpid())


@contextmanager
def engine_like() -> Iterator[EngineState]:
    """The state of an engine that ends afterwards: another process."""
    command = [sys.executable, "-P", "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        yield state_of(process.pid)
        assert process.poll() is None
        process.communicate(b"\n")


@pytest.fixture
def ended(alive: EngineState) -> EngineState:
    """The state of an engine whose process number was reused."""
    return replace(alive, pid_mark="another start", supervisor_mark="another start")


def up(home: Home, *words: str) -> Result:
    return CliRunner().invoke(app, ["local", "up", *words, "--home", str(home.path)])


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# The state of an engine


def test_an_engine_is_running_while_its_process_is_alive(home: Home, ended: EngineState) -> None:
    assert home.running() is None
    with engine_like() as alive:
        home.write_state(alive)
        assert home.read_state() == home.running() == alive
    assert home.running() is None
    home.write_state(ended)
    assert (home.read_state(), home.running()) == (ended, None)


def test_a_process_stays_the_same_in_another_time_zone_and_language(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # What macOS has instead of /proc; Linux has it too, but often no other language.
    ps = tmp_path / "ps"
    ps.write_text(f'#!/bin/sh\necho "$LC_ALL"; exec {shutil.which("ps")} "$@"\n')
    ps.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    marks = set()
    for zone, language in (("America/New_York", "de_DE.UTF-8"), ("Asia/Tokyo", "ja_JP.UTF-8")):
        monkeypatch.setenv("TZ", zone)
        monkeypatch.setenv("LC_ALL", language)
        marks.add(processes._mark_from_ps(os.getpid()))
    assert len(marks) == 1
    assert None not in marks


def test_the_state_file_of_another_version_names_its_engine_and_a_damaged_one_none(
    home: Home, alive: EngineState
) -> None:
    home.write_state(alive)
    raw = json.loads(home.state_file.read_text())
    home.state_file.write_text(json.dumps({**raw, "of_another_version": 1}))
    assert home.read_state() == alive
    old = dict.fromkeys(("pid", "supervisor_pid", "port"), 1)
    texts = ("pid_mark", "supervisor_mark", "endpoint", "access_key", "started_at", "ends_at")
    home.state_file.write_text(json.dumps({**old, **dict.fromkeys(texts, "x")}))
    state = home.read_state()
    assert state is not None
    assert state.context == {}
    for damaged in ("{", "", "[]", "[" * 100_000, '{"pid": 5}', '{"pid": "5", "outputs": []}'):
        home.state_file.write_text(damaged)
        assert home.read_state() is None


@pytest.mark.parametrize("command", ["down", "up", "status"])
def test_a_copied_home_does_not_end_the_engine_of_the_original(
    tmp_path: Path, command: str
) -> None:
    original, copy = Home(tmp_path / "original"), tmp_path / "copy"
    original.claim()
    with engine_like() as alive:
        original.write_state(alive)
        (original.data / "tables").mkdir(parents=True)
        shutil.copytree(original.path, copy)
        ran = CliRunner().invoke(app, ["local", command, "--home", str(copy)])
        assert isinstance(ran.exception, ExpectedError)
        assert f"{copy} is a copy of {original.path}" in str(ran.exception)
    assert files_below(copy / "engine") == ["tables"]
    assert Home(copy).read_state() is None, "that engine has ended, so it is of no account"
    assert original.read_state() is not None


def test_a_missing_deployment_is_explained(home: Home, alive: EngineState) -> None:
    home.write_state(alive)
    with pytest.raises(ExpectedError, match="nothing is deployed"):
        Deployment.local(home)


@pytest.mark.parametrize("is_running", [True, False])
def test_an_interrupted_up_says_whether_the_engine_stays_and_the_values_that_are_not_kept_yet(
    home: Home, alive: EngineState, monkeypatch: pytest.MonkeyPatch, is_running: bool
) -> None:
    monkeypatch.setattr(Cdk, "bootstrap", interrupt)
    monkeypatch.setattr(Cdk, "synthesize", lambda _: None)
    monkeypatch.setattr(engine, "start", interrupt)
    home.claim()
    if is_running:
        home.write_state(replace(alive, context={"max_follows": "50"}))
    given = ("-c", "channel_threshold=3", "-c", "max_follows=") if is_running else ()
    ran = up(home, *given)
    assert (ran.exit_code, ran.stdout) == (130, "")
    stays = f"Interrupted: the engine (process {alive.pid}) keeps running"
    assert (stays if is_running else "Interrupted: no engine is running") in ran.stderr
    if is_running:
        again = f"`fanfold local up {shlex.join(given)} --home {home.path}` goes on"
        assert again in ran.stderr


def test_a_failed_synthesis_names_the_values_to_try_again_with(
    home: Home, alive: EngineState, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = tmp_path / "cdk"
    failing.write_text("#!/bin/sh\nexit 1\n")
    failing.chmod(0o700)
    monkeypatch.setenv(CDK_VARIABLE, str(failing))
    with pytest.raises(ExpectedError, match=r"^`cdk synth` failed .* up -c max_follows=50 --home"):
        Cdk(home, CHECKOUT, alive.local_endpoint, {"max_follows": "50"}).synthesize()


def test_an_engine_whose_start_is_interrupted_is_ended(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor = subprocess.Popen([sys.executable, "-P", "-c", "import time; time.sleep(60)"])
    monkeypatch.setattr(engine, "_can_bind", lambda _port: True)
    monkeypatch.setattr("fanfold_cli.local.engine.subprocess.Popen", lambda *_, **__: supervisor)
    monkeypatch.setattr(processes, "wait_until", interrupt)
    with pytest.raises(KeyboardInterrupt):
        engine.start(home, lifetime_seconds=1, port=4566)
    assert supervisor.wait(10) == -signal.SIGTERM


def test_what_an_ended_engine_has_left_is_awaited_in_a_sentence(
    home: Home,
    ended: EngineState,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock.instead(monkeypatch)
    monkeypatch.setattr(engine, "stop", lambda *_: clock.sleep(progress.PATIENCE_SECONDS))
    monkeypatch.setattr(engine, "start", Mock(side_effect=ExpectedError("Enough.")))
    home.claim()
    home.write_state(ended)
    with pytest.raises(ExpectedError, match="Enough"):
        deploy.bring_up(home)
    said = capsys.readouterr().err
    assert "has ended, and its data is lost." in said
    assert "Waiting for its data to be deleted." in said


# The choice of a directory


def test_the_option_overrides_the_environment_and_the_environment_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FANFOLD_HOME", str(tmp_path / "environment"))
    assert Home.choose(tmp_path / "named").path == tmp_path / "named"
    assert Home.choose().path == tmp_path / "environment"
    monkeypatch.delenv("FANFOLD_HOME")
    assert Home.choose().path == CHECKOUT / ".fanfold"
    with pytest.raises(WrongValue, match="--home is empty: name a directory"):
        Home.choose("")


@pytest.mark.parametrize("name", ["file", "file/x", "/proc/x", "~nobody-of-this-name/x"])
def test_an_unusable_directory_is_answered_with_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    named = str(tmp_path / name) if name.startswith("file") else name
    up, down = (
        CliRunner().invoke(app, ["local", command, "--home", named]) for command in ("up", "down")
    )
    assert isinstance(up.exception, ExpectedError)
    assert isinstance(down.exception, ExpectedError) or "No engine is running" in down.stderr


def test_a_port_out_of_range_is_refused(home: Home) -> None:
    for port in ("-1", "80", "1023", "65536"):
        ran = up(home, "--port", port)
        assert ran.exit_code == 2
        assert f"--port must be from 1024 to 65535, not {port}." in ran.stderr
    assert files_below(home.path) == []


def test_a_wrong_value_changes_nothing_not_even_a_new_home(home: Home) -> None:
    ran = up(home, "-c", "backfill=99")
    assert isinstance(ran.exception, WrongValue)
    assert str(ran.exception).startswith("Nothing was changed. 'backfill' must be from 0 to 30")
    assert files_below(home.path) == []


# Directories that are no homes


def with_foreign_files(directory: Path) -> Home:
    """A directory with files of somebody else, under names that a home has too."""
    for name in ("engine", "deployed"):
        (directory / name).mkdir(parents=True)
        (directory / name / "precious").write_text("mine")
    return Home(directory)


def files_below(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_up_down_and_the_engine_leave_a_foreign_directory_alone(
    tmp_path: Path, alive: EngineState, ended: EngineState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_can_bind", lambda _port: True)
    foreign = with_foreign_files(tmp_path)
    foreign.write_state(alive)
    before = files_below(tmp_path)
    for refused in (
        lambda: deploy.bring_up(foreign),
        lambda: deploy.take_down(foreign),
        lambda: engine.start(foreign, lifetime_seconds=1, port=4566),
    ):
        with pytest.raises(ExpectedError, match="is not a home of the local engine"):
            refused()
    engine.stop(foreign, ended)
    assert files_below(tmp_path) == before


def test_down_deletes_the_data_in_a_home(home: Home, ended: EngineState) -> None:
    home.claim()
    with_foreign_files(home.path)
    home.write_state(ended)
    deploy.take_down(home)
    assert files_below(home.path) == [MARKER, "lock"]
