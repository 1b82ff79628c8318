"""Run a command, and fail if it uses more CPU seconds than allowed.

CPU time does not depend on how busy the machine is. Processes that outlive the command, such as the
local engine, do not count.
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
            f"Nothing failed, but this used {seconds:,.0f} CPU seconds, and {limit} are allowed. "
            "Find the slowest tests with `pytest --durations=30`, and make them faster.",
            file=sys.stderr,
        )
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main())
