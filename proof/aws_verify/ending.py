"""How a run ends before its time: by a signal, with a terminal or without one."""

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

# Ctrl-C, `kill`, and a terminal that was closed.
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Each of these ends the run as Ctrl-C does, so that the stack is removed."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        go_on_unheard()
        raise KeyboardInterrupt

    before = {
        each: signal.signal(each, interrupt)
        for each in ENDING
        if signal.getsignal(each) is not signal.SIG_IGN  # as `nohup` wants it
    }
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def go_on_unheard() -> None:
    """Say the rest to nobody if the terminal, or who reads the pipe, is gone.

    The next sentence would fail otherwise, and the stack would stay.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):  # It is no file.
            looked = select.poll()
            looked.register(stream.fileno(), 0)  # tells nothing but that it is broken
            if looked.poll(0):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
