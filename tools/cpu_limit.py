"""Run a command, and fail if it uses more CPU seconds than allowed on a machine of usual speed.

CPU seconds grow where cores are shared with other machines: a fixed loop measures the speed
meanwhile. Processes that outlive the command, such as the local engine, do not count.
"""

import resource
import subprocess
import sys
from collections.abc import Sequence
from time import process_time, sleep
from timeit import timeit

# Of the loop, on the quiet machine where the limit was set: AMD EPYC, Python 3.11.
USUAL_SECONDS = 0.105


def main() -> int:
    """The command's exit status, or 1 if it passed and used too much."""
    limit, *command = sys.argv[1:]
    running, loops = subprocess.Popen(command), list[float]()
    while running.poll() is None:
        loops.append(timeit("total += 1", "total = 0", timer=process_time, number=5_000_000))
        sleep(10)
    seconds = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])  # the user's, the system's
    most = allowed(float(limit), loops)
    print(f"{seconds:,.0f} CPU seconds of {most:,.0f}, {limit} at usual speed.", flush=True)
    return running.returncode or int(seconds > most)


def allowed(limit: float, loops: Sequence[float]) -> float:
    """CPU seconds that a command may use, after the loop took these; a fast machine gets no less.

    One loop at usual speed is added, for a command that ends before the first.
    """
    slowness = [1.0, *(max(1.0, each / USUAL_SECONDS) for each in loops)]
    return limit * sum(slowness) / len(slowness)


if __name__ == "__main__":
    sys.exit(main())
