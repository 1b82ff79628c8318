"""Processes, identified by number and start time, because the system reuses numbers.

Standard library only, because the supervisor imports it.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

# The time to end after SIGTERM. The engine waits for open connections, which nobody needs.
GRACE_SECONDS = 1.0
# After SIGKILL, a process ends immediately, unless the system is very busy.
FORCED_SECONDS = 5.0
POLL_SECONDS = 0.05


def start_mark(pid: int) -> str | None:
    """A mark that differs between two processes of the same number; None if there is no process."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        return _mark_from_proc(stat)
    return _mark_from_ps(pid)


def _mark_from_ps(pid: int) -> str | None:
    """On macOS, which has no /proc: the start of the process to the second."""
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        # Otherwise another time zone or language would change the mark of a running engine.
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
        capture_output=True,
        text=True,
        check=False,
    )
    state, _, started = asked.stdout.strip().partition(" ")
    return None if not state or state.startswith("Z") else started.strip()


def _mark_from_proc(stat: Path) -> str | None:
    try:
        content = stat.read_text()
    except OSError:
        return None
    # The name in parentheses may contain spaces and parentheses, so split after the last one. The
    # first field is then the state (Z: a zombie), the twentieth the start time.
    fields = content.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]


def is_alive(pid: int, mark: str) -> bool:
    """Whether the process with this number and this `start_mark` still runs."""
    return start_mark(pid) == mark


def group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_group(group: int, grace_seconds: float = GRACE_SECONDS) -> None:
    """Send SIGTERM to every process of the group, and SIGKILL after the grace period."""
    for signal_number, seconds in (
        (signal.SIGTERM, grace_seconds),
        (signal.SIGKILL, FORCED_SECONDS),
    ):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal_number)
        if wait_until(lambda: not group_is_alive(group), seconds):
            return


def wait_until_gone(pid: int, mark: str, seconds: float) -> bool:
    """Wait for a process to end; return whether it did."""
    return wait_until(lambda: not is_alive(pid, mark), seconds)


def wait_until(claim: Callable[[], bool], seconds: float, poll: float = POLL_SECONDS) -> bool:
    """Wait until the claim is true; return False after a timeout."""
    deadline = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll)
    return True
