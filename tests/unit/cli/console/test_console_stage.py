"""The stage of `fanfold demo --hurt`: whose it is, and what ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import typer

from fanfold import clock
from fanfold_cli import aws
from fanfold_cli.console import opening
from fanfold_cli.console.views import State
from fanfold_cli.console.watching import Refreshing
from fanfold_cli.follows.graph import heavy_tailed
from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from fanfold_cli.terminal import ExpectedError
from proof.hurt import building, command
from proof.hurt import stage as stages
from proof.hurt.meter import Meter
from proof.hurt.stage import Stage

GRAPH = heavy_tailed(publishers=2, most=5, seed=1)


@pytest.fixture
def ups_and_downs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was done to the engine, which does not start."""
    told: list[str] = []

    def bring_up(_home: Home, **_: Any) -> None:
        told.append("up")
        raise ExpectedError("No engine today.")

    monkeypatch.setattr(deploy, "bring_up", bring_up)
    monkeypatch.setattr(deploy, "take_down", lambda _home: told.append("down"))
    return told


def test_a_second_demo_does_not_end_the_engine_of_the_first(
    tmp_path: Path, ups_and_downs: list[str]
) -> None:
    home = Home(tmp_path / "home-hurt")
    running = pytest.raises(ExpectedError, match="Another `fanfold demo --hurt` is running in")
    with building.alone(home), running, building.staged(home, GRAPH, seconds=5):
        pass
    assert ups_and_downs == []


def test_a_demo_that_does_not_start_leaves_nothing_and_the_next_one_may(
    tmp_path: Path, ups_and_downs: list[str]
) -> None:
    home = Home(tmp_path / "home-hurt")
    for _ in range(2):
        no_engine = pytest.raises(ExpectedError, match="No engine")
        with no_engine, building.staged(home, GRAPH, seconds=5):
            pass
    assert ups_and_downs == ["up", "down"] * 2


@pytest.mark.network
def test_ctrl_c_during_the_deployment_says_that_the_engine_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[Home] = []
    monkeypatch.setattr(deploy, "_running_engine", Mock(side_effect=KeyboardInterrupt))
    monkeypatch.setattr(deploy, "take_down", ended.append)
    with pytest.raises(typer.Exit) as error:
        command.run(Home(tmp_path / "home"), GRAPH, seconds=5, port=0, browser=False)
    assert error.value.exit_code == 130
    assert ended == [building.home_beside(Home(tmp_path / "home"))]
    said = capsys.readouterr().err
    assert said == "Interrupted: the engine of this demo has ended, with all its workers.\n"


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A stage at rest, which is read whenever it is asked for, and publishes in no time."""
    engine = Deployment("us-east-1", aws.LocalEndpoint("http://127.0.0.1:1", "key"), {})
    made = Stage(engine, GRAPH, Meter(dict, "T"))  # type: ignore[arg-type]

    def read(before: State) -> State:
        return replace(before, read_at=clock.now_ms() / 1000)

    made.shown = Refreshing(replace(made.shown.state, every_seconds=0.0), read)
    monkeypatch.setattr(stages, "publish", Mock())
    return made


def test_once_the_rows_shall_be_counted_nothing_more_is_published(stage: Stage) -> None:
    stage.act({"what": "count"})
    with pytest.raises(ExpectedError, match="Nothing was published"):
        stage.act({"what": "publish"})
    assert stage.is_at_rest
    stages.publish.assert_not_called()  # type: ignore[attr-defined]


@contextmanager
def handled(number: signal.Signals, by: signal.Handlers) -> Iterator[None]:
    """These tests may run under `nohup`, which has SIGHUP ignored."""
    before = signal.signal(number, by)
    try:
        yield
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_closed_terminal_ends_a_console_as_ctrl_c_does(number: signal.Signals) -> None:
    with handled(number, signal.SIG_DFL):
        with pytest.raises(KeyboardInterrupt), opening.ended_by_signals():
            os.kill(os.getpid(), number)
        assert signal.getsignal(number) == signal.SIG_DFL


def test_nohup_stays_in_force() -> None:
    with handled(signal.SIGHUP, signal.SIG_IGN), opening.ended_by_signals():
        os.kill(os.getpid(), signal.SIGHUP)


def test_a_button_that_does_nothing_says_why_in_the_log(stage: Stage) -> None:
    stage.pool = Mock(**{"kill.side_effect": ExpectedError("Nothing was killed.")})
    with pytest.raises(ExpectedError):
        stage.act({"what": "kill"})
    assert [event.text for event in stage.story.lines] == ["Nothing was killed."]


def test_nothing_is_at_rest_while_a_publish_is_in_flight(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[bool]()
    monkeypatch.setattr(stages, "publish", lambda *_, **__: seen.append(stage.is_at_rest))
    assert stage.is_at_rest
    stage.publish()
    assert seen == [False]
