"""Judges that cannot run here: each says what is missing, and whoever runs them goes on."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each collects tests in a process of its own
# How each is started, and what it says without its tools.
JUDGES = {
    "DynamoDB Local": (
        ("pytest", "--engine", "dynamodb-local", "tests/integration/test_json.py"),
        r"\d+ skipped: DynamoDB Local needs java, and it is not installed",
    ),
    "emulated arm64": (
        ("pytest", "-k", "lambdas_machine", "tests/wire/test_functions.py"),
        r"1 skipped: (qemu-user or .* not installed|Python .* not installed|Only Linux)",
    ),
    "another Python": (("tests.pythons",), r"Left out\. .+ not installed|This is Python"),
}


@pytest.mark.parametrize("judge", JUDGES)
def test_a_judge_without_its_tools_says_what_is_missing_and_fails_nothing(
    judge: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    node = shutil.which("node")
    assert node
    (tmp_path / "node").symlink_to(node)  # the CDK starts it when it is imported
    monkeypatch.setenv("PATH", str(tmp_path))
    command, sentence = JUDGES[judge]
    done = subprocess.run(
        [sys.executable, "-P", "-m", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert re.search(sentence, done.stdout), done.stdout
