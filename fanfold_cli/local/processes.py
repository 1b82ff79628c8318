"""Processes by number and start, because the system gives a number away again."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

# How long a process group may take to end by itself. The engine waits for open connections, and
# keeps nothing that is worth the wait.
GRACE_SECONDS = 1.0
# What is killed is gone at once, unless the system is very busy.
FORCED_SECONDS = 5.0
POLL_SECONDS = 0.05


def start_mark(pid: int) -> str | None:
    """Return what tells this process from a later one of the same number; None when it is gone."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        return _mark_from_proc(stat)
    # macOS has no /proc; `ps` says there when the process began, to the second.
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = asked.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def _mark_from_proc(stat: Path) -> str | None:
    try:
        content = stat.read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything, so count from its end: state, ..., start.
    fields = content.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def is_alive(pid: int, mark: str) -> bool:
    """Say whether the process that had this number and this start is still there."""
    return start_mark(pid) == mark


def group_is_alive(group: int) -> bool:
    """Say whether any process of the group is left."""
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_group(group: int, grace_seconds: float = GRACE_SECONDS) -> None:
    """End every process of a group: kindly first, and by force when the grace is over."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGTERM)
    if _group_ends(group, grace_seconds):
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
    _group_ends(group, FORCED_SECONDS)


def _group_ends(group: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while group_is_alive(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def wait_until_gone(pid: int, mark: str, seconds: float) -> bool:
    """Wait for a process to end; say whether it did."""
    deadline = time.monotonic() + seconds
    while is_alive(pid, mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True
