"""Run a door in a fresh process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FreshAnswer:
    """What a fresh process took, from before the import to after the first answer."""

    cpu: float  # seconds, user and system
    wall: float  # seconds
    answer: Any


def answer(door: str, event: dict[str, Any], **environment: str) -> FreshAnswer:
    """Let the `handler` of the module `door` answer the event in a fresh process."""
    child = subprocess.run(
        [sys.executable, "-P", "-m", "proof.bench.child", door],
        input=json.dumps(event),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return FreshAnswer(**json.loads(child.stdout.splitlines()[-1]))
