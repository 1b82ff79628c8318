"""The examples of docs/api.md, tried on the deployed functions."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable

import pytest

from fanfold_cli import aws
from fanfold_cli.stack import Deployment
from tests.e2e.clients import POLL_SECONDS, User
from tests.examples import Example, examples, is_like

# Some answers follow from what happens meanwhile, such as a delivery; it is over long before.
PATIENCE_SECONDS = 60.0


@pytest.mark.skipif(shutil.which("aws") is None, reason="There is no AWS CLI here.")
def test_every_example_answers_as_the_page_says(
    stack: Deployment, make: Callable[[str], User]
) -> None:
    alice, bob = make("alice"), make("bob")
    assert stack.endpoint is not None
    variables = {
        "API": stack.api_url,
        "QUEUE": stack.settings().publish_queue_url,
        "ALICE": alice.token,
        "BOB": bob.token,
        "ENGINE": stack.endpoint.url,
        "AWS_ACCESS_KEY_ID": stack.endpoint.access_key,
        "AWS_SECRET_ACCESS_KEY": aws.LOCAL_SECRET,
        "AWS_DEFAULT_REGION": aws.LOCAL_REGION,
    }
    for example in examples():
        answer = tried(example, {"alice": alice.name, "bob": bob.name}, variables)
        if answer and "REF_ID" not in variables and "accepted_at" in answer:
            published = json.loads(answer)
            variables["REF_ID"] = published["ref_id"]
            variables["PUBLISHED_AT"] = published["published_at"]


def tried(example: Example, names: dict[str, str], variables: dict[str, str]) -> str:
    """Run an example until it answers what the page shows; `names` are those of its users."""
    commands = example.commands.replace("curl ", "curl -sS ")
    # Version 1 of the AWS CLI does not read AWS_ENDPOINT_URL for SQS.
    commands = commands.replace("aws sqs ", 'aws --endpoint-url "$ENGINE" sqs ')
    shown = json.dumps(example.answer)
    for user, name in names.items():
        commands, shown = commands.replace(user, name), shown.replace(user, name)
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        done = subprocess.run(
            ["bash", "-ec", commands],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        if example.answer is None:
            assert "problem" not in done.stdout, done.stdout
            return ""
        if is_like(json.loads(done.stdout), json.loads(shown)):
            return done.stdout
        assert time.monotonic() < end, f"{commands}\nanswers\n{done.stdout}\nand not\n{shown}"
        time.sleep(POLL_SECONDS)
