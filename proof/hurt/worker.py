"""`python -m proof.hurt.worker QUEUE...`: one warm Lambda environment, as a process.

It receives a message, invokes the real function, and deletes the message unless that failed. It
reports on standard output, a JSON object a line, and ends with its standard input.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from fanfold import clock
from proof.simulation.worker_processes import QUEUES, Source, doors, is_copy

IDLE_SECONDS = 0.2
# A message whose run failed is visible again after this time, instead of its queue's timeout.
FAILED_SHOWN_AFTER = 3


def main(names: list[str]) -> None:
    """Work until killed, or until the parent is gone."""
    out = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # for the function's logs

    def tell(**what: Any) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    threading.Thread(target=_end_with_parent, daemon=True).start()
    modules = doors()
    sources = [Source(each, modules[each.consumer]) for each in QUEUES if each.lane in names]
    tell(ready=True)
    while True:
        if not any(_take(source, tell) for source in sources):
            clock.sleep(IDLE_SECONDS)


def _take(source: Source, tell: Any) -> bool:
    for message in source.receive():
        attributes = message["Attributes"]
        tell(
            url=source.url,
            handle=message["ReceiptHandle"],
            body=message["Body"],
            group=attributes.get("MessageGroupId", ""),
            is_first=attributes["ApproximateReceiveCount"] == "1" and not is_copy(message),
        )
        succeeded = source.invoke(message)
        if not succeeded:
            source.show(message["ReceiptHandle"], after_seconds=FAILED_SHOWN_AFTER)
        tell(succeeded=succeeded)
        return True
    return False


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
