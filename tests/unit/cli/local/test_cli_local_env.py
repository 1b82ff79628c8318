"""`fanfold local env`: what a shell takes over by `eval`, and that nothing is printed otherwise."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fanfold_cli.app import app
from fanfold_cli.local.home import Home
from tests.unit.cli.local.test_cli_home import state_of

ENDPOINT = "http://127.0.0.1:4566"
# Neither is an address of ours; a shell must take over every character.
API, QUEUE = "http://127.0.0.1:4566/a'b", f"{ENDPOINT}/000000000000/$(false) queue"


@pytest.fixture
def running(tmp_path: Path) -> Home:
    """A home whose engine is this very process, with a stack of two outputs."""
    home = Home(tmp_path)
    outputs = {"ApiUrl": API, "PublishQueueUrl": QUEUE}
    home.write_state(replace(state_of(os.getpid()), access_key="the key", outputs=outputs))
    return home


def test_a_shell_has_everything_after_eval_whatever_characters_it_holds(running: Home) -> None:
    printed = CliRunner().invoke(app, ["local", "env", "--home", str(running.path)]).stdout
    script = 'eval "$1"; env -0'
    shell = ["sh", "-c", script, "sh", printed]
    ran = subprocess.run(shell, env={"PATH": os.environ["PATH"]}, capture_output=True, check=True)
    variables = dict(line.split("=", 1) for line in ran.stdout.decode().split("\0") if "=" in line)
    wanted = {
        "API": API,
        "PUBLISH_QUEUE_URL": QUEUE,
        "AWS_ENDPOINT_URL": ENDPOINT,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "the key",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    assert variables.items() >= wanted.items()
    as_json = CliRunner().invoke(app, ["local", "env", "--json", "--home", str(running.path)])
    assert json.loads(as_json.stdout) == wanted


def test_without_an_engine_nothing_is_printed_and_the_exit_code_is_1(tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["local", "env", "--home", str(tmp_path)])
    assert (ran.exit_code, ran.stdout) == (1, "")
