"""The examples of docs/api.md: commands, and the answers that the page shows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

PAGE = Path(__file__).parents[1] / "docs/api.md"
_BLOCK = re.compile(r"```(sh|json)\n(.*?)```", re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
_RANDOM_ID = re.compile(r"[0-9a-f]{32}")
# A cursor; shorter than 20 characters, it would be that of a known name.
_CURSOR = re.compile(r"3[\w-]{20,}")


class Example(NamedTuple):
    commands: str
    answer: Any  # None where the page shows none


def examples() -> list[Example]:
    """The examples, in the order of the page."""
    section = PAGE.read_text().partition("\n## Examples\n")[2].partition("\n## ")[0]
    found: list[Example] = []
    for kind, text in _BLOCK.findall(section):
        if kind == "sh":
            found.append(Example(text, None))
        else:
            found[-1] = Example(found[-1].commands, json.loads(text))
    return found


def requests(example: Example) -> list[tuple[str, str]]:
    """Method and path of each request of an example's curl commands."""
    return [
        (method or "GET", path)
        for method, path in re.findall(
            r"^curl(?: -X (\w+))? \"\$API([^?\"]*)", example.commands, re.MULTILINE
        )
    ]


def is_like(got: Any, shown: Any) -> bool:
    """Whether an answer is what the page shows, but for times, random ids and cursors."""
    if isinstance(shown, dict):
        return (
            isinstance(got, dict)
            and got.keys() == shown.keys()
            and all(name == "lag_seconds" or is_like(got[name], shown[name]) for name in shown)
        )
    if isinstance(shown, list):
        return isinstance(got, list) and len(got) == len(shown) and all(map(is_like, got, shown))
    if isinstance(shown, str):
        alike = (_TIME, _RANDOM_ID, _CURSOR)
        return got == shown or any(
            isinstance(got, str) and kind.fullmatch(got) and kind.fullmatch(shown) for kind in alike
        )
    return bool(got == shown)
