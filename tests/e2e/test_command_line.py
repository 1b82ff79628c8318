"""The commands of users, on the local engine: from a follow to a timeline that is watched."""

import json
import os
import signal
import subprocess
import sys
import uuid
from typing import Any

from typer.testing import CliRunner

from fanfold_cli.app import app
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User


def fanfold(engine: Home, *words: str) -> Any:
    """What the command answers with --json."""
    ran = CliRunner().invoke(app, [*words, "--home", str(engine.path), "--json"])
    assert ran.exit_code == 0, ran.exception
    return json.loads(ran.stdout)


def test_a_post_goes_from_one_user_to_another_by_commands_alone(engine: Home) -> None:
    alice, bob = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("alice", "bob"))
    assert fanfold(engine, "follow", alice, "--user", bob)["follows"]
    published = fanfold(engine, "publish", "Hello", "--user", alice, "--wait")
    assert published["delivery"]["state"] == "complete"
    assert published["publisher_id"] == alice
    ref_id = published["ref_id"]
    page = fanfold(engine, "timeline", "--user", bob)
    assert [entry["ref_id"] for entry in page["entries"]] == [ref_id]
    assert fanfold(engine, "unread", "--user", bob)["unread"] == 1
    fanfold(engine, "edit", ref_id, "--body", '{"price":1.10}', "--user", alice)
    fanfold(engine, "mute", alice, "--user", bob)
    assert fanfold(engine, "timeline", "--user", bob)["entries"] == []
    fanfold(engine, "unmute", alice, "--user", bob)
    fanfold(engine, "retract", ref_id, "--user", alice)
    assert not fanfold(engine, "unfollow", alice, "--user", bob)["follows"]


def test_the_token_of_a_user_is_one_that_the_api_takes(engine: Home, stack: Deployment) -> None:
    name = f"carol-{uuid.uuid4().hex[:8]}"
    signed = fanfold(engine, "token", "--user", name)
    assert signed["id"] == name
    assert list(User(stack, name, signed["token"]).api.following()) == []


def test_one_who_watches_sees_a_post_as_a_line_and_ctrl_c_ends_it_quietly(engine: Home) -> None:
    alice, bob = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("alice", "bob"))
    fanfold(engine, "follow", alice, "--user", bob)
    words = ["timeline", "--user", bob, "--follow", "--json", "--home", str(engine.path)]
    watching = subprocess.Popen(
        [sys.executable, "-P", "-m", "fanfold_cli", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test may run where nobody's Ctrl-C arrives.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        env=os.environ,
    )
    with watching:
        assert watching.stdout is not None
        ref_id = fanfold(engine, "publish", "Hello", "--user", alice, "--wait")["ref_id"]
        assert json.loads(watching.stdout.readline())["ref_id"] == ref_id
        watching.send_signal(signal.SIGINT)
        rest, said = watching.communicate()
    assert (watching.returncode, rest) == (130, "")
    assert "Traceback" not in said
