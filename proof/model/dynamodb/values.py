"""Attribute values: reads, checks, compares, measures and writes them.

Inside the model a value is `(type, content)` and never changes: text for S, `Decimal` for N, bytes
for B, a frozenset for the sets, a tuple of values for L, a dict for M.
Sources: "Supported data types and naming rules" and "DynamoDB item sizes and formats" of the
Developer Guide.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any, TypeAlias

from proof.model.errors import Invalid

Value: TypeAlias = tuple[str, Any]
Item: TypeAlias = dict[str, Value]
WireItem: TypeAlias = Mapping[str, Mapping[str, Any]]

SETS = {"SS": "S", "NS": "N", "BS": "B"}
MAX_NESTING = 32
MAX_DIGITS = 38
# Magnitudes from 1E-130 to 9.99...E+125.
MIN_EXPONENT, MAX_EXPONENT = -130, 125

_PLAIN = Context(prec=200)
# A set of thousands of numbers is measured again at every change of its item.
NUMBERS_KEPT = 16_384


def from_wire(wire: Mapping[str, Any], depth: int = 0) -> Value:
    """Read a value such as `{"S": "a"}`; raises `Invalid`."""
    if len(wire) != 1:
        if not wire:
            raise Invalid(
                "Supplied AttributeValue is empty, must contain exactly one of the supported "
                "datatypes"
            )
        raise Invalid(
            "Supplied AttributeValue has more than one datatypes set, must contain exactly one of "
            "the supported datatypes"
        )
    ((kind, content),) = wire.items()
    if kind == "S":
        return "S", content
    if kind == "N":
        return "N", to_number(content)
    if kind in ("BOOL", "NULL"):
        if kind == "NULL" and content is not True:
            raise Invalid.value("Null attribute value types must have the value of true")
        return kind, content
    if kind == "B":
        return "B", bytes(content)
    if kind in SETS:
        return kind, _set(kind, content)
    if depth >= MAX_NESTING:
        raise Invalid("Nesting Levels have exceeded supported limits")
    if kind == "L":
        return "L", tuple(from_wire(each, depth + 1) for each in content)
    if kind == "M":
        return "M", {name: from_wire(each, depth + 1) for name, each in content.items()}
    raise Invalid(f"Unknown data type: {kind}")


def to_wire(value: Value) -> dict[str, Any]:
    kind, content = value
    match kind:
        case "N":
            return {"N": number_text(content)}
        case "SS" | "BS":
            return {kind: sorted(content)}
        case "NS":
            return {"NS": [number_text(each) for each in sorted(content)]}
        case "L":
            return {"L": [to_wire(each) for each in content]}
        case "M":
            return {"M": item_to_wire(content)}
    return {kind: content}


def item_from_wire(wire: WireItem) -> Item:
    return {
        name: ("S", value["S"]) if "S" in value and len(value) == 1 else from_wire(value)
        for name, value in wire.items()
    }


def item_to_wire(item: Item) -> dict[str, Any]:
    return {
        name: {"S": value[1]} if value[0] == "S" else to_wire(value) for name, value in item.items()
    }


def to_number(text: str) -> Decimal:
    """Read a number; raises `Invalid` if DynamoDB cannot hold it."""
    try:
        return _number(text)
    except (InvalidOperation, TypeError, ValueError):
        raise Invalid(f"The parameter cannot be converted to a numeric value: {text}") from None


@lru_cache(NUMBERS_KEPT)
def _number(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError(text)
    return checked_number(number)


def checked_number(number: Decimal) -> Decimal:
    """The normalized number; raises `Invalid` if DynamoDB cannot hold it."""
    if not number:
        return Decimal(0)
    if number.adjusted() > MAX_EXPONENT:
        raise Invalid(
            "Number overflow. Attempting to store a number with magnitude larger than supported "
            "range"
        )
    if number.adjusted() < MIN_EXPONENT:
        raise Invalid(
            "Number underflow. Attempting to store a number with magnitude smaller than supported "
            "range"
        )
    digits = number.as_tuple().digits
    if len(digits) > MAX_DIGITS and len("".join(map(str, digits)).strip("0")) > MAX_DIGITS:
        raise Invalid("Attempting to store more than 38 significant digits in a Number")
    return number.normalize(_PLAIN)  # equal numbers have to be equal partition keys


@lru_cache(NUMBERS_KEPT)
def number_text(number: Decimal) -> str:
    """A number as DynamoDB answers it: without an exponent or trailing zeros."""
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text if text not in ("-0", "") else "0"


def add(one: Decimal, other: Decimal) -> Decimal:
    """The sum; raises `Invalid` if it has too many digits, and never rounds."""
    return checked_number(_PLAIN.add(one, other))


def size_of_item(item: Item) -> int:
    total = 0
    for name, value in item.items():
        total += len(name) if name.isascii() else len(name.encode())
        total += size_of(value)
    return total


def size_of(value: Value) -> int:
    """Bytes of a value without its name.

    Text counts in UTF-8; a number is about one byte for two significant digits and one more; null
    and boolean are one; a list or map is three, and one more for each element.
    """
    kind, content = value
    if kind == "S":
        return len(content) if content.isascii() else len(content.encode())
    match kind:
        case "N":
            return _size_of_number(content)
        case "B":
            return len(content)
        case "BOOL" | "NULL":
            return 1
        case "L":
            return 3 + sum(1 + size_of(each) for each in content)
        case "M":
            return 3 + len(content) + size_of_item(content)
        case "NS":
            return sum(map(_size_of_number, content))
    return sum(size_of((SETS[kind], each)) for each in content)


@lru_cache(NUMBERS_KEPT)
def _size_of_number(number: Decimal) -> int:
    """One byte for each pair of digits from the decimal point on, one more, and one for a minus.

    The guide says "approximately"; that pairs begin at the point, and the minus, are measured by
    users. At most 21 bytes.
    """
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits))
    trimmed = text.rstrip("0")
    if not trimmed:
        return 1
    low = int(exponent) + len(text) - len(trimmed)  # the place of the last significant digit
    high = low + len(trimmed.lstrip("0"))
    pairs = -(-high // 2) - low // 2
    return min(21, pairs + 1 + sign)


def _set(kind: str, content: Any) -> frozenset[Any]:
    if not content:
        raise Invalid.value(
            "An string set  may not be empty" if kind == "SS" else "A set may not be empty"
        )
    element = SETS[kind]
    members = [from_wire({element: each})[1] for each in content]
    unique = frozenset(members)
    if len(unique) != len(members):
        raise Invalid.value("Input collection contains duplicates")
    return unique
