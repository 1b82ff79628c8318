"""Opens the page in the user's browser, and turns signals into its end."""

from __future__ import annotations

import html
import signal
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def opened(address: str, *, is_wanted: bool) -> Iterator[None]:
    """Open the address in a browser.

    The browser gets it from a file that only this user can read, deleted when the block ends: all
    users of a machine see a browser's arguments, and the address holds the key.
    """
    if not is_wanted:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="fanfold-console-") as folder:  # mode 0700
        page = Path(folder, "open.html")
        target = html.escape(address, quote=True)
        page.write_text(
            f'<!doctype html><meta http-equiv="refresh" content="0;url={target}">'
            f'<a href="{target}">The console</a>\n'
        )
        webbrowser.open(page.as_uri())
        yield


@contextmanager
def ended_by_signals(first: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Let SIGTERM or a closed terminal end the block as Ctrl-C does, so that it cleans up.

    Each of the three calls `first` before.
    """

    def end(_signal: int, _frame: FrameType | None) -> None:
        first()
        raise KeyboardInterrupt

    # A signal that `nohup` ignores stays ignored.
    numbers = [each for each in ENDS if signal.getsignal(each) is not signal.SIG_IGN]
    before = {each: signal.signal(each, end) for each in numbers}
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell ignores SIGINT for background jobs. Commands that the page starts would inherit
        # that and could not be ended; they do not inherit a handler.
        before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
