"""The paired benches, run short: each figure reaches 70 % of its target, on whatever machine.

Ratios only: both contestants are measured in the same minute on the same machine, so a slow or busy
one changes little. What is asked for in full is in proof/bench/, and measured by `make bench`.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from proof.bench.figures import Figure

ROOT = Path(__file__).parents[2]
SHARE = 0.7
FIGURES = {
    "deliver": ["deliver.vs_batch_writer"],
    "query": ["query.vs_boto3_resource"],
    "cold-start": [f"cold_start.{door}" for door in ("api", "deliver", "query")],
}
# A bench takes 10 s; on the busiest of machines, some times that.
TIMEOUT_SECONDS = 120


@pytest.mark.speed
@pytest.mark.network
@pytest.mark.parametrize("name", FIGURES)
def test_a_paired_bench_reaches_most_of_its_targets(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "proof.bench", name, "--short", "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=TIMEOUT_SECONDS,
    )
    figures = [Figure(**json.loads(line)) for line in ended.stdout.splitlines()]
    assert [figure.name for figure in figures] == FIGURES[name]
    assert [figure for figure in figures if not figure.reaches(SHARE)] == []
