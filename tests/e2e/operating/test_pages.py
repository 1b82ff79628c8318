"""The commands of the pages, run on a local engine as a reader runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fanfold_cli.local import deploy
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, eventually, send
from tests.lifetimes import LIFETIME_HOURS
from tests.pages import ROOT, Block, blocks

pytestmark = pytest.mark.thorough

# What a reader answers on a terminal is said by an option.
ASKS = re.compile(
    r"(fanfold (?:dlq drop|warm(?= --write)|shards (?:grow|static|dynamic)|fanout abandon"
    r"|channels (?:add|demote))\b)"
)
# What a reader has done before, and CI too.
MADE = re.compile(r"^make .*$", re.MULTILINE)
# What serves until Ctrl-C: here, until it has said where.
SERVES = re.compile(r"^npm .* run example .*$", re.MULTILINE)
UNTIL_IT_SERVES = """set -m
{command} > served 2>&1 & server=$!
until grep http://localhost served; do kill -0 $server; sleep 0.2; done
kill -- -$server"""
# With channels, of which nobody gets one but by hand.
CHANNELS = {"channel_threshold": "1000000000"}
# tests/e2e/api/test_examples.py compares what this page shows.
COMPARED = "docs/api.md"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """An engine of these tests alone: their commands pause it and drop its letters."""
    home = Home(tmp_path_factory.mktemp("pages"))
    try:
        deploy.bring_up(home, lifetime_hours=LIFETIME_HOURS, given=CHANNELS)
        yield home
    finally:
        deploy.take_down(home)


class Reader:
    """One who types the blocks of a page into one shell, in a directory of their own."""

    def __init__(self, home: Home, folder: Path) -> None:
        self.stack = Deployment.local(home)
        self.folder = folder
        # The command line of this checkout, wherever the one on the PATH comes from.
        fanfold = folder / "bin" / "fanfold"
        fanfold.parent.mkdir()
        fanfold.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m fanfold_cli "$@"\n')
        fanfold.chmod(0o755)
        for name in ("clients", ".venv"):
            (folder / name).symlink_to(ROOT / name)
        self.environment = {
            **os.environ,
            "PATH": f"{fanfold.parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "FANFOLD_HOME": str(home.path),
        }

    def type(self, block: Block) -> None:
        """Run a block behind those before it, with real ids in the places of names."""
        commands = ASKS.sub(r"\1 --yes", self.with_ids(MADE.sub("", block.commands)))
        commands = SERVES.sub(lambda line: UNTIL_IT_SERVES.format(command=line[0]), commands)
        state = self.folder / "state"
        known = f"source {state}\n" if state.exists() else ""
        script = (
            f"set -e\n{known}{commands}\ndeclare -p API PUBLISH_QUEUE_URL BOB > {state} 2>/dev/null"
        )
        done = subprocess.run(
            ["bash", "-c", f"{script} || true"],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
        assert "problems.md" not in done.stdout, done.stdout

    def with_ids(self, commands: str) -> str:
        if re.search(r"\bID\b", commands):
            commands = re.sub(r"\bID\b(\.\.\.)?", self.dead_letter(), commands)
        if "REF_ID" in commands:
            commands = re.sub(r"\bREF_ID\b(\.\.\.)?", self.post(), commands)
        return re.sub(r"\bPUBLISHER\b", "alice", commands)

    def dead_letter(self) -> str:
        """Send what breaks the contract, and return the id of its letter."""
        send(self.stack, {"type": "post.lost"})
        eventually(lambda: bool(self.letters()))
        return self.letters()[0]

    def letters(self) -> list[str]:
        done = subprocess.run(
            ["fanfold", "dlq", "list", "--json"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return re.findall(r'"(?:message_id|id)": ?"([^"]+)"', done.stdout)

    def post(self) -> str:
        alice = User(self.stack, "alice", self.stack.token("alice"))
        return str(alice.publish(body={"title": "Hello"})["ref_id"])


RUN = [block for block in blocks() if not block.mark and block.page != COMPARED]


@pytest.mark.parametrize("page", sorted({block.page for block in RUN}))
def test_the_commands_of_a_page_run_on_the_local_engine(
    page: str, home: Home, tmp_path: Path
) -> None:
    reader = Reader(home, tmp_path)
    for block in RUN:
        if block.page == page:
            reader.type(block)
