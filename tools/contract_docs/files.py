"""The contents of the documents' files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.contract_docs import limits, messages, openapi, settings

ROOT = Path(__file__).parents[2]
TODAY = ROOT / "docs"
OPENAPI = "openapi.json"
SCHEMAS = "schemas"
LIMITS = "limits.md"
SETTINGS = "settings.md"


def documents() -> dict[str, Any]:
    """The documents by path below `TODAY`."""
    schemas = {f"{SCHEMAS}/{kind}.json": each for kind, each in messages.documents().items()}
    return {OPENAPI: openapi.document(), **schemas}


def all_texts() -> dict[Path, str]:
    """The texts of the files to write."""
    texts = {TODAY / name: text(each) for name, each in documents().items()}
    return {**texts, TODAY / LIMITS: limits.PAGE, TODAY / SETTINGS: settings.page()}


def text(document: Any) -> str:
    """A document as it is committed."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
