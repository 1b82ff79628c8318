"""The `fanfold` command: its version at once, and the one place that reports expected failures."""

import errno
import io
import os
import signal
import sys
from importlib.metadata import version
from typing import NoReturn

# What a write to stdout may fail with: a full disk, a terminal that has gone, a closed descriptor.
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
# What shells say of a program that SIGPIPE has ended: its reader has gone, as in `| head`.
UNREAD = 128 + signal.SIGPIPE


def main() -> None:
    """Run the command line; an expected failure is a sentence and an exit code, no traceback."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"{version_line()}\n")
        return
    # Here, because whoever asks for the version need not wait for the command line.
    from fanfold_cli.app import app
    from fanfold_cli.terminal import ExpectedError, say

    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal of another encoding, such as Latin-1, shows what it lacks by its number.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        _end_unread()
    except SystemExit as end:
        # Typer and Rich say by a 1 that a reader has gone.
        if isinstance(end.__context__, BrokenPipeError):
            _end_unread()
        raise
    except OSError as error:
        if error.errno not in OUTPUT_ERRORS:
            raise
        _write_no_more()
        say(f"The output could not be written: {error.strerror}.")
        sys.exit(1)
    except ExpectedError as error:
        say(str(error))
        sys.exit(error.exit_code)


def _end_unread() -> NoReturn:
    """End without an answer that was read: a failure, unless only help was asked for."""
    _write_no_more()
    sys.exit(0 if {"--help", "-h"} & set(sys.argv) else UNREAD)


def _write_no_more() -> None:
    # Or the interpreter would try, and fail, once more at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def version_line() -> str:
    return f"fanfold {version('fanfold')}"
