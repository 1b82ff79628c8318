"""Which core a process runs on, where the system lets us choose."""

from __future__ import annotations

import os
import sys

# The cores of the bench itself and of the stub.
CLIENT, STUB = 0, 1


def pin(which: int) -> None:
    """Keep this process to one of its cores, by number, if it has that many."""
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > which:
            os.sched_setaffinity(0, {cores[which]})


def pinned(cores: int) -> str:
    """Whether processes are pinned, for people to read; `cores` is their number before pinning."""
    if sys.platform == "linux" and cores > 1:
        return "client and stub each to a core of its own"
    return "no: this system does not say how, or has one core"


def count() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
