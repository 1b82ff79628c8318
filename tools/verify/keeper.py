"""Run a command, and end all processes that it leaves, even those with their own session.

Linux makes this process the parent of descendants whose own parent ends (a subreaper, like
`tini -s`). Elsewhere, processes with their own session are left running.
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
    """0 if the command passed, else 1. SIGINT is left to the command; SIGTERM ends everything."""
    signal.signal(signal.SIGINT, lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        # If the caller is killed, or ended by a second Ctrl-C, this process gets SIGTERM.
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    try:
        command = subprocess.Popen(sys.argv[1:])
        while True:
            # Reap every process, as init does: a zombie would keep its process group alive.
            ended, status = os.wait()
            if ended == command.pid:
                command.returncode = os.waitstatus_to_exitcode(status)
                return int(command.returncode != 0)
    finally:
        _end_children()


def _end_children() -> None:
    """Kill all children, and theirs, which become children once their parent has ended."""
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    while left := children.read_text().split() if children.exists() else []:
        for pid in map(int, left):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main())
