"""Run a command, and end whatever it has left when it ends: also what has a session of its own.

Linux makes this process the parent of each of its descendants whose own parent ends (a subreaper,
as `tini -s` is one). Elsewhere, what has a session of its own is left alone.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

# From <sys/prctl.h>.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> int:
    """0 if the command has passed, else 1. SIGINT is for the command; SIGTERM ends everything."""
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # For a caller that is killed, or that a second Ctrl-C ends while it waits.
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    try:
        command = subprocess.Popen(sys.argv[1:])
        while True:
            # Whichever has ended, as init does: a zombie would keep its process group alive.
            ended, status = os.wait()
            if ended == command.pid:
                command.returncode = os.waitstatus_to_exitcode(status)
                return int(command.returncode != 0)
    finally:
        _end_children()


def _end_children() -> None:
    """End all children, and theirs, which become children as soon as their parent has ended."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while left := children.read_text().split() if children.exists() else []:
        for pid in map(int, left):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main())
