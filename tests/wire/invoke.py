"""Invokes a function as Lambda does: `python -I -S invoke.py ASSET MODULE`, an event a line.

It has the standard library and the asset, and nothing else of this machine. The last line that it
prints holds the answers, and on what they were computed.
"""

import importlib
import json
import platform
import sys
import time

SECONDS = 60


class Context:
    """The context of one invocation."""

    function_name = "function"
    memory_limit_in_mb = 512
    invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:function"
    aws_request_id = "52fdfc07-2182-454f-963f-5f0f9a621d72"

    def __init__(self) -> None:
        self._ends_at = time.monotonic() + SECONDS

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self._ends_at - time.monotonic()) * 1000))


def main() -> None:
    asset, module = sys.argv[1:]
    sys.path.insert(0, asset)
    handler = importlib.import_module(f"functions.{module}").handler
    answers = [handler(json.loads(line), Context()) for line in sys.stdin]
    where = {"machine": platform.machine(), "python": platform.python_version()}
    print(json.dumps({"answers": answers, **where}))


if __name__ == "__main__":
    main()
