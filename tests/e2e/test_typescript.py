"""The TypeScript client: built, tested, packed and used against the deployed stack, by Node."""

import os
import subprocess
from pathlib import Path

import pytest

CLIENT = Path(__file__).parents[2] / "clients" / "typescript"
# Much longer than it takes on a busy machine.
PATIENCE_SECONDS = 300


def run(*command: str, cwd: Path = CLIENT, **environment: str) -> str:
    """Run a command, and return what it printed; fails with that."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def built() -> None:
    """The client and its tests, compiled."""
    run("npm", "run", "build:tests")


def test_its_types_are_those_of_the_contract() -> None:
    run("npm", "run", "schema", "--", "--check")  # else: make documents


@pytest.mark.usefixtures("built")
def test_its_own_tests_pass() -> None:
    run("npm", "run", "test:built")
