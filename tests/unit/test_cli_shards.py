"""`fanfold shards`: what is counted of the shards, and what is refused before anything is read."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from fanfold import ring
from fanfold_cli.console import ExpectedError
from fanfold_cli.main import app
from fanfold_cli.shard_report import Level, estimated


def test_skew_is_the_largest_shard_against_the_mean() -> None:
    level = Level(1, [30, 10])
    assert (level.edges, level.mean, level.skew) == (40, 20, 1.5)


def test_shards_without_edges_have_no_skew() -> None:
    assert Level(1, [0, 0]).skew is None


@pytest.mark.parametrize(("level", "shard"), [(0, 0), (2, 0), (2, 3)])
def test_a_shard_is_estimated_from_the_density_at_its_start(level: int, shard: int) -> None:
    chance = random.Random(1)
    width = ring.RING_SIZE >> level
    edges = sorted(shard * width + chance.randrange(width) for _ in range(100_000))
    reached = f"{edges[9_999]:016x}"
    assert estimated(10_000, reached, level=level, shard=shard) == pytest.approx(100_000, rel=0.05)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["shards", "show", "a#b"], "PUBLISHER"),
        (["shards", "show", ""], "PUBLISHER"),
        (["shards", "grow", "a b", "--level", "1"], "PUBLISHER"),
        (["doctor", "--publisher", "a#b"], "--publisher"),
        (["doctor", "--publisher", ""], "--publisher"),
    ],
)
def test_a_publisher_that_is_no_id_is_refused_before_anything_else(
    command: list[str], name: str
) -> None:
    ran = CliRunner().invoke(app, command)
    assert isinstance(ran.exception, ExpectedError)
    assert f"'{name}' is not a valid id" in str(ran.exception)


@pytest.mark.parametrize("level", ["-1", "x", "1.5", ""])
@pytest.mark.parametrize("command", [["grow", "ada"], ["static"]])
def test_a_level_that_is_no_number_from_0_on_is_refused(command: list[str], level: str) -> None:
    ran = CliRunner().invoke(app, ["shards", *command, "--level", level])
    assert ran.exit_code == 2
    assert "--level" in ran.stderr


def test_a_lost_connection_counts_as_passing_for_the_command_line() -> None:
    code = """
import fanfold_cli.main
from botocore.exceptions import ConnectTimeoutError
from fanfold.calls import is_passing
assert is_passing(ConnectTimeoutError(endpoint_url="https://dynamodb"))
"""
    # In a process of its own: in this one, other tests have told of those errors.
    subprocess.run([sys.executable, "-c", code], check=True)
