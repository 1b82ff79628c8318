"""The whole OpenAPI document against the deployed functions, by requests of schemathesis."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from contract_docs import files
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User

CONFIGURATION = Path(__file__).with_name("schemathesis.toml")


@pytest.mark.slow
def test_every_answer_is_as_the_document_says(stack: Deployment, tmp_path: Path) -> None:
    """Status, headers and content are documented and no 5xx; only valid requests are accepted."""
    ann = User(stack, "ann", stack.token("ann"))
    bea = User(stack, "bea", stack.token("bea"))
    bea.follow(ann)
    ann.publish(body={"title": "Hello"})
    found = subprocess.run(
        [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            CONFIGURATION,
            "run",
            files.TODAY / files.OPENAPI,
            "--url",
            stack.api_url,
        ],
        cwd=tmp_path,
        env={**os.environ, "FANFOLD_TOKEN": bea.token},
        timeout=600,
    )
    assert found.returncode == 0
