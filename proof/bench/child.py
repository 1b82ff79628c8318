"""One door in a fresh process: import it, let it answer one event, and print what that took.

`python -m proof.bench.child MODULE` reads the event from standard input, and prints time and answer
as the last line. Before the clock starts, it imports the standard library only.
"""

import json
import sys
import time
from importlib import import_module


class Context:
    """Lambda's context as far as a door reads it; importing the model's would take time."""

    function_name = "fanfold"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:fanfold"
    aws_request_id = "5a3e2c1d-0000-4000-8000-000000000001"

    def get_remaining_time_in_millis(self) -> int:
        return 120_000


def main() -> None:
    event = json.load(sys.stdin)
    wall, cpu = time.perf_counter(), time.process_time()
    answer = import_module(sys.argv[1]).handler(event, Context())
    took = {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
    print(json.dumps({**took, "answer": answer}))


if __name__ == "__main__":
    main()
