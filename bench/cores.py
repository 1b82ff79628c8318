"""Which core a process runs on, where the system lets us say so."""

from __future__ import annotations

import os
import sys

# The bench itself, and the endpoint that it speaks to.
CLIENT, STUB = 0, 1


def pin(which: int) -> None:
    """Keep this process to the first or the second of its cores, if it has two."""
    if sys.platform == "linux":
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > which:
            os.sched_setaffinity(0, {cores[which]})


def pinned(cores: int) -> str:
    """How it stands, in words; `cores` is how many there were before pinning."""
    if sys.platform == "linux" and cores > 1:
        return "client and stub each to a core of its own"
    return "no: this system does not say how, or has one core"


def count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
