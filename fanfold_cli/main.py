"""The `fanfold` command: its version at once, and the one place that reports expected failures."""

import os
import sys
from importlib.metadata import version


def main() -> None:
    """Run the command line; an expected failure is a sentence and an exit code, no traceback."""
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write(f"{version_line()}\n")
        return
    # Here, because whoever asks for the version need not wait for the command line.
    from fanfold_cli.app import app
    from fanfold_cli.console import ExpectedError, say

    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        # Or the interpreter would try, and fail, once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        say(f"The command failed: {error.strerror or error}.")
        sys.exit(1)
    except ExpectedError as error:
        say(str(error))
        sys.exit(error.exit_code)


def version_line() -> str:
    return f"fanfold {version('fanfold')}"
