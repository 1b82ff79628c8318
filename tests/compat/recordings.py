"""Recorded answers of DynamoDB Local, which the model has to give even where there is no Java.

`python -m tests.compat.recordings` records them again; the live test fails if they have changed.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "dynamodb-local.jsonl"
# Longer text is cut.
MAX_CHARS = 60


def shortened(value: Any) -> Any:
    """An answer in JSON that people can read."""
    if isinstance(value, dict):
        return {str(name): shortened(each) for name, each in value.items()}
    if isinstance(value, list):
        return [shortened(each) for each in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, str) and len(value) > MAX_CHARS:
        return f"{value[:MAX_CHARS]}… {len(value)} characters"
    return value


@cache
def recorded() -> dict[str, list[Any]]:
    """The answers to each program, by its name."""
    lines = RECORDED.read_text().splitlines()
    return {entry["program"]: entry["answers"] for entry in map(json.loads, lines)}


def main() -> None:
    """Record the answers of DynamoDB Local."""
    from tests.compat import engines
    from tests.compat.test_agreement import CASES, record

    with (
        tempfile.TemporaryDirectory() as directory,
        engines.dynamodb_local(Path(directory)) as engine,
        RECORDED.open("w") as file,
    ):
        for case in CASES:
            answers = record(case, engines.on_endpoint(engine, case.tables)).answers
            entry = {"program": case.name, "answers": shortened(answers)}
            file.write(json.dumps(entry, ensure_ascii=False, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
