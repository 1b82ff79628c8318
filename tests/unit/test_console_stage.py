"""The stage of `fanfold demo --hurt`: whose it is, and what ends it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import typer

from fanfold_cli.console import ExpectedError
from fanfold_cli.graph import heavy_tailed
from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_console import opening, server
from fanfold_console.hurt import building, command

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
    with (
        building.alone(home),
        pytest.raises(ExpectedError, match="Another `fanfold demo --hurt` is running in"),
        building.staged(home, GRAPH, seconds=5),
    ):
        pass
    assert ups_and_downs == []


def test_a_demo_that_does_not_start_leaves_nothing_and_the_next_one_may(
    tmp_path: Path, ups_and_downs: list[str]
) -> None:
    home = Home(tmp_path / "home-hurt")
    for _ in range(2):
        with (
            pytest.raises(ExpectedError, match="No engine"),
            building.staged(home, GRAPH, seconds=5),
        ):
            pass
    assert ups_and_downs == ["up", "down"] * 2


@pytest.mark.network
def test_a_taken_port_is_told_before_anything_starts(
    tmp_path: Path, ups_and_downs: list[str]
) -> None:
    with (
        server.serving(server.Doors(dict, dict)) as other,
        pytest.raises(ExpectedError, match=f"Port {other.port} of"),
    ):
        command.run(Home(tmp_path / "home"), GRAPH, seconds=5, port=other.port, browser=False)
    assert ups_and_downs == []


@pytest.mark.network
def test_ctrl_c_during_the_deployment_says_that_the_engine_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[Home] = []

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(deploy, "_running_engine", interrupted)
    monkeypatch.setattr(deploy, "take_down", ended.append)
    with pytest.raises(typer.Exit) as error:
        command.run(Home(tmp_path / "home"), GRAPH, seconds=5, port=0, browser=False)
    assert error.value.exit_code == 130
    assert ended == [building.home_beside(Home(tmp_path / "home"))]
    said = capsys.readouterr().err
    assert said == "Interrupted: the engine of this demo has ended, with all its workers.\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_closed_terminal_ends_a_console_as_ctrl_c_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), opening.ended_by_signals():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_nohup_stays_in_force() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with opening.ended_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
