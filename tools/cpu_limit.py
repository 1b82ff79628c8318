"""Run a command, and fail if it has used more CPU seconds than it may.

CPU, not time: how busy the machine is does not matter. Processes that outlive the command, such as
the local engine, do not count.
"""

from __future__ import annotations

import resource
import subprocess
import sys


def main() -> int:
    """The command's exit status, or 1 if it passed and used too much."""
    limit, *command = sys.argv[1:]
    status = subprocess.run(command, check=False).returncode
    seconds = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])  # the user's, the system's
    print(f"{seconds:,.0f} CPU seconds of {limit}.", flush=True)
    if status == 0 and seconds > float(limit):
        print(
            f"Nothing failed, but this takes too long: {seconds:,.0f} CPU seconds, and it may take "
            f"{limit}. Find the dear tests with `pytest --durations=30`, and make them cheaper.",
            file=sys.stderr,
        )
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
