"""The `fanfold` command: prints its version quickly, and reports all expected failures."""

import errno
import io
import os
import signal
import sys
from importlib.metadata import version
from typing import NoReturn

# Errors of writes to stdout: a full disk, a closed terminal, a closed descriptor.
OUTPUT_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF)
# The exit code of a program that SIGPIPE ended, because its reader is gone, as in `| head`.
UNREAD = 128 + signal.SIGPIPE


def main() -> None:
    """Run the command line; an expected failure is a sentence and an exit code, no traceback."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"{version_line()}\n")
        return
    try:
        # Imported here, so that --version does not wait for it.
        from fanfold import invariants
        from fanfold_cli.app import app
        from fanfold_cli.terminal import ExpectedError, say, say_broken
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)  # `terminal.INTERRUPTED`, which may not be there yet
    invariants.report_to(say_broken)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal with another encoding, such as Latin-1, shows other characters as escapes.
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
        # Typer and Rich exit with 1 if the reader is gone.
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
    """Exit after the reader has gone: a failure, except for --help."""
    _write_no_more()
    sys.exit(0 if {"--help", "-h"} & set(sys.argv) else UNREAD)


def _write_no_more() -> None:
    # Otherwise the interpreter would fail again when it flushes at its end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def version_line() -> str:
    return f"fanfold {version('fanfold')}"
