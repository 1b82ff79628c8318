"""One door in a fresh process: import it, let it answer one event, and say what that took.

`python -m bench.child MODULE` reads the event from standard input; the last line of standard output
is what it took. Nothing but the door is imported before the clock starts.
"""

import json
import sys
import time
from importlib import import_module


class Context:
    """As much of Lambda's context as a door asks for."""

    function_name = "fanfold"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:fanfold"
    aws_request_id = "5a3e2c1d-0000-4000-8000-000000000001"

    def get_remaining_time_in_millis(self) -> int:
        """As at the beginning of an invocation."""
        return 120_000


def peak_mb() -> float:
    """The most memory that this process ever had resident, in MB."""
    if sys.platform == "linux":  # getrusage would count the parent's too, from before exec
        with open("/proc/self/status") as status:  # noqa: PTH123 - pathlib would be an import more
            line = next(line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Import, answer, tell."""
    event = json.load(sys.stdin)
    wall, cpu = time.perf_counter(), time.process_time()
    answer = import_module(sys.argv[1]).handler(event, Context())
    took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    print(json.dumps({**took, "peak_mb": peak_mb(), "answer": answer}))


if __name__ == "__main__":
    main()
