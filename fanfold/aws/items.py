"""DynamoDB attribute values as the low-level API spells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

# BatchWriteItem takes no more puts, and BatchGetItem no more keys.
MAX_PUTS = 25
MAX_KEYS = 100

Item: TypeAlias = Mapping[str, Mapping[str, Any]]


def text(value: str) -> dict[str, str]:
    """A string attribute value."""
    return {"S": value}


def number(value: int) -> dict[str, str]:
    """A number attribute value."""
    return {"N": str(value)}


def get_text(item: Item, name: str, default: str = "") -> str:
    """The string attribute `name` of `item`."""
    return str(item[name]["S"]) if name in item else default


def get_number(item: Item, name: str, default: int = 0) -> int:
    """The number attribute `name` of `item`."""
    return int(item[name]["N"]) if name in item else default
