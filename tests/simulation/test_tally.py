"""A long command of the simulation goes on where it was interrupted."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proof.simulation.tally import Tally


def test_seeds_that_are_done_in_any_order_are_kept_with_what_they_came_to(tmp_path: Path) -> None:
    tally, path = Tally(10), tmp_path / "folder" / "all.json"
    for seed in (12, 10, 14):
        tally.add(
            seed, transport="boto3", faults={"hot": 2}, reached={"stalled": 3}, is_broken=seed == 12
        )
    tally.save(path, "this code")
    found = Tally.load(path, "this code")
    assert found == tally
    assert found is not None
    assert [seed for seed in range(9, 16) if seed not in found] == [9, 11, 13, 15]
    assert (found.done, found.broken, found.faults) == (3, [12], {"hot": 6})
    assert (found.reached, found.reached_by) == ({"stalled": 9}, {"stalled": 3})
    found.add(11, transport="libcurl", faults={}, reached={}, is_broken=False)
    assert (found.end, found.beyond) == (13, {14})


def test_what_other_code_did_counts_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    assert Tally.load(path, "new") is None
    tally = Tally(0)
    tally.add(0, transport="boto3", faults={}, reached={}, is_broken=False)
    tally.save(path, "old")
    assert Tally.load(path, "new") is None


@pytest.mark.thorough
def test_the_same_command_goes_on_behind_the_seeds_that_are_done(tmp_path: Path) -> None:
    seeds = ("--seeds", "3", "--start", "5")
    command = (sys.executable, "-P", "-m", "proof.simulation", *seeds, "--jobs", "1")

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, "--keep", str(tmp_path), *options],
            capture_output=True,
            text=True,
            check=True,
        )

    first = run("--seconds", "0")
    assert "simulation: 1 seeds" in first.stdout
    (kept,) = tmp_path.iterdir()
    assert json.loads(kept.read_text())["end"] == 6
    second = run()
    assert f"{kept}: 1 seeds are done; delete it to start over." in second.stderr
    assert "simulation: 3 seeds" in second.stdout
    assert list(tmp_path.iterdir()) == []
