"""Parses bodies of messages."""

from __future__ import annotations

import json
from typing import Any


def content_of(body: str) -> dict[str, Any]:
    """The JSON object in a body; empty if it is not one."""
    try:
        content = json.loads(body)
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}
