"""DynamoDB attribute values and expressions as the low-level API spells them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

# The limits of one BatchWriteItem and of one BatchGetItem.
MAX_PUTS = 25
MAX_KEYS = 100

Value: TypeAlias = Mapping[str, Any]
Item: TypeAlias = Mapping[str, Value]


def text(value: str) -> dict[str, str]:
    return {"S": value}


def number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def texts(values: Collection[str]) -> dict[str, list[str]]:
    """A set of texts."""
    return {"SS": list(values)}


def binaries(values: Collection[bytes]) -> dict[str, list[bytes]]:
    """A set of binaries, as boto3 takes it."""
    return {"BS": list(values)}


def get_text(item: Item, name: str, default: str = "") -> str:
    return str(item[name]["S"]) if name in item else default


def get_number(item: Item, name: str, default: int = 0) -> int:
    return int(item[name]["N"]) if name in item else default


def expressions(
    *,
    sets: Mapping[str, Value | str] | None = None,
    adds: Item | None = None,
    deletes: Item | None = None,
    removes: Sequence[str] = (),
    condition: str = "",
    values: Item | None = None,
) -> dict[str, Any]:
    """The expressions of a conditional write, as keyword arguments of update_item or put_item.

    The clauses name attributes, or paths such as `resume.3`; a value of `sets` may also be text: an
    expression. Expressions and condition refer to attributes as `#name`, so that reserved words
    need no care, and to values of the clauses as `:name` (`:resume_3`). All other values are in
    `values`, with the colon in their names.
    """
    given: dict[str, Value] = {}

    def operand(path: str, value: Value) -> str:
        name = ":" + path.replace(".", "_")
        given[name] = value
        return name

    clauses = {
        "SET": [
            f"{named(path)} = {value if isinstance(value, str) else operand(path, value)}"
            for path, value in (sets or {}).items()
        ],
        "ADD": [f"{named(path)} {operand(path, value)}" for path, value in (adds or {}).items()],
        "DELETE": [
            f"{named(path)} {operand(path, value)}" for path, value in (deletes or {}).items()
        ],
        "REMOVE": [named(path) for path in removes],
    }
    if twice := given.keys() & (values or {}).keys():
        raise ValueError(f"Values of clauses and of the condition share names: {sorted(twice)}.")
    update = " ".join(f"{verb} {', '.join(each)}" for verb, each in clauses.items() if each)
    names = re.findall(r"#(\w+)", f"{update} {condition}")
    request = {
        "UpdateExpression": update,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
        "ExpressionAttributeValues": {**given, **(values or {})},
    }
    return {name: part for name, part in request.items() if part}


def named(path: str) -> str:
    """A path such as `resume.3` as expressions spell it: `#resume.#3`."""
    return ".".join(f"#{name}" for name in path.split("."))
