"""The commands of users, on the local engine: from a follow to a timeline that is watched."""

import json
import os
import signal
import subprocess
import sys
import uuid

from fanfold_cli.local.home import Home
from tests.e2e.clients import operate


def test_commands_suffice_to_get_a_post_from_one_user_to_another(engine: Home) -> None:
    alice, bob = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("alice", "bob"))
    assert operate(engine, "follow", alice, "--user", bob)["follows"]
    published = operate(engine, "publish", "Hello", "--user", alice, "--wait")
    assert published["delivery"]["state"] == "complete"
    assert published["publisher_id"] == alice
    ref_id = published["ref_id"]
    page = operate(engine, "timeline", "--user", bob)
    assert [entry["ref_id"] for entry in page["entries"]] == [ref_id]
    assert operate(engine, "unread", "--user", bob)["unread"] == 1
    operate(engine, "edit", ref_id, "--body", '{"price":1.10}', "--user", alice)
    operate(engine, "mute", alice, "--user", bob)
    assert operate(engine, "timeline", "--user", bob)["entries"] == []
    operate(engine, "unmute", alice, "--user", bob)
    operate(engine, "retract", ref_id, "--user", alice)
    assert not operate(engine, "unfollow", alice, "--user", bob)["follows"]
    assert operate(engine, "private", "on", "--user", alice)["private"]
    assert operate(engine, "block", bob, "--user", alice)["blocked"]
    assert operate(engine, "follow", alice, "--user", bob)["state"] == "requested"
    assert operate(engine, "requests", "--user", alice)["requests"] == []
    assert not operate(engine, "unblock", bob, "--user", alice)["blocked"]
    assert not operate(engine, "follow", alice, "--user", bob)["follows"]
    assert operate(engine, "requests", "--user", alice)["requests"][0]["user_id"] == bob
    assert operate(engine, "approve", bob, "--user", alice)["follows"]
    assert not operate(engine, "remove", bob, "--user", alice)["follows"]


def test_one_who_watches_sees_a_post_as_a_line_and_ctrl_c_ends_it_quietly(engine: Home) -> None:
    alice, bob = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("alice", "bob"))
    operate(engine, "follow", alice, "--user", bob)
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
        ref_id = operate(engine, "publish", "Hello", "--user", alice, "--wait")["ref_id"]
        assert json.loads(watching.stdout.readline())["ref_id"] == ref_id
        watching.send_signal(signal.SIGINT)
        rest, said = watching.communicate()
    assert (watching.returncode, rest) == (130, "")
    assert "Traceback" not in said
