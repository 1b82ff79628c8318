"""The workers of `fanfold demo --hurt`, as processes that do nothing: which kill counts as one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from fanfold_cli.terminal import ExpectedError
from proof.hurt import pool as pools
from proof.hurt.pool import Pool
from tests.e2e.clients import eventually

SEGMENT = {"type": "deliver", "fanout_id": "post-1", "segment": 0, "segments": 4}
MESSAGE = {"url": "u", "handle": "h", "body": json.dumps(SEGMENT), "group": "", "is_first": True}
WORK = f"import time; print({json.dumps(MESSAGE)!r}, flush=True); time.sleep(600)"
KILLED = ["Worker 1 was killed at segment 1"]


def queue(*, has_it: bool) -> Mock:
    """Knows the message, unless it was deleted."""
    error: Any = {"Error": {"Code": "ReceiptHandleIsInvalid"}}
    deleted = ClientError(error, "ChangeMessageVisibility")
    return Mock(**{"change_message_visibility.side_effect": None if has_it else deleted})


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The processes of a pool with one place, each with a segment in hand."""
    processes: list[subprocess.Popen[str]] = []

    def start(_pool: Pool, _lanes: Any) -> subprocess.Popen[str]:
        command = [sys.executable, "-P", "-c", WORK]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return processes[-1]

    monkeypatch.setattr(pools, "TEAM", (pools.BULK,))
    monkeypatch.setattr(Pool, "_start", start)
    yield processes
    for each in processes:
        each.kill()
        each.wait()
    eventually(lambda: all(each.stdout and each.stdout.closed for each in processes), patience=30)


def pool_of(queue: Mock, folder: Path, told: list[str]) -> Pool:
    pool = Pool({}, queue, folder / "log", lambda _kind, text: told.append(text))
    eventually(lambda: pool.views()[0].state == "busy", patience=30)
    return pool


@pytest.mark.parametrize("has_it", [True, False], ids=["in hand", "just done"])
def test_a_kill_is_sigkill_and_counts_unless_the_segment_has_just_been_done(
    started: list[Any], tmp_path: Path, has_it: bool
) -> None:
    known, told = queue(has_it=has_it), list[str]()
    pool = pool_of(known, tmp_path, told)
    with nullcontext() if has_it else pytest.raises(ExpectedError, match="had just finished"):
        pool.kill("post-1")
    assert started[0].wait(10) == -signal.SIGKILL
    (shown,) = known.change_message_visibility.call_args_list
    assert (pool.killed, shown.kwargs["VisibilityTimeout"]) == (has_it, pools.SHOWN_AFTER)
    assert [text.partition(" of")[0] for text in told] == KILLED[:has_it]
    eventually(lambda: len(started) == 2, patience=30)
    pool.close()
