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

HERE = Path(__file__).parent
MAX_SECONDS = 600


@pytest.mark.slow
def test_every_answer_is_as_the_document_says(stack: Deployment, tmp_path: Path) -> None:
    """Status, headers and content are documented and no 5xx; only valid requests are accepted."""
    user = User(stack, "bea", stack.token("bea"))
    user.follow(User(stack, "alice", ""))
    ref_id = user.publish(body={"title": "Hello"})["ref_id"]
    # Dictionaries take nothing from the environment.
    settings = (HERE / "schemathesis.toml").read_text().replace("${FANFOLD_REF_ID}", ref_id)
    (tmp_path / "schemathesis.toml").write_text(settings)
    done = subprocess.run(
        [
            Path(sys.executable).with_name("schemathesis"),
            "--config-file",
            tmp_path / "schemathesis.toml",
            "run",
            files.TODAY / files.OPENAPI,
            "--url",
            stack.api_url,
        ],
        cwd=tmp_path,
        env={
            **os.environ,
            "FANFOLD_TOKEN": user.token,
            "SCHEMATHESIS_HOOKS": str(HERE / "schemathesis_hooks.py"),
        },
        timeout=MAX_SECONDS,
    )
    assert done.returncode == 0
