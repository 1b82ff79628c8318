"""Seeds that run on several processes, of which one is killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from proof.simulation import __main__ as simulation
from proof.simulation.__main__ import SeedRun


def instead(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    """Run this in place of each seed; the processes are forked, so they have it too."""
    monkeypatch.setattr(simulation, "run", run)


def test_a_process_that_is_killed_ends_the_command_and_the_seeds_under_way_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def run(seed: int, _kind: object) -> SeedRun:
        if seed == 17:
            os.kill(os.getpid(), signal.SIGKILL)
        return SeedRun(seed, "ordinary", "boto3")

    instead(monkeypatch, run)
    command = ["simulation", "--start", "10", "--seeds", "30", "--jobs", "2"]
    monkeypatch.setattr(sys, "argv", [*command, "--keep", str(tmp_path)])
    assert simulation.main() == 1
    said = capsys.readouterr().err
    named = said.partition("these seeds ran: ")[2].partition(".")[0]
    assert "17" in named.split(", ")
    assert len(named.split(", ")) <= 3
    assert list(tmp_path.iterdir()), "what is done is kept"
    assert multiprocessing.active_children() == []
