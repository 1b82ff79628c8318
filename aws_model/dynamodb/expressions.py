"""Conditions and projections evaluated, and the checks that DynamoDB makes of a whole request.

Parsed once for each text and set of names; see `syntax` for the grammar and `updates` for updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeVar

from aws_model.dynamodb.syntax import (
    Action,
    Call,
    Comparison,
    Condition,
    Logic,
    Operand,
    Parser,
    Path,
    Placeholder,
)
from aws_model.dynamodb.values import SETS, Item, Value
from aws_model.errors import Invalid

Values = Mapping[str, Value]
Parsed = TypeVar("Parsed")
# Texts differ by segment number at most where they are written well; then names carry it.
CACHED = 4096
TYPES = {"S", "N", "B", "SS", "NS", "BS", "M", "L", "NULL", "BOOL"}
ORDERED = {"S", "N", "B"}


class Expressions:
    """The expressions of one request with its placeholders; `check` that all are used, last."""

    def __init__(self, names: Mapping[str, str] | None, values: Values | None) -> None:
        for name in names or ():
            if not name.startswith("#") or len(name) < 2:
                raise Invalid(
                    f'ExpressionAttributeNames contains invalid key: Syntax error; key: "{name}"'
                )
        for name in values or ():
            if not name.startswith(":") or len(name) < 2:
                raise Invalid(
                    f'ExpressionAttributeValues contains invalid key: Syntax error; key: "{name}"'
                )
        self.names = dict(names or {})
        self.values: Values = values or {}
        self._key = tuple(sorted(self.names.items()))
        self._used_names: set[str] = set()
        self._used_values: set[str] = set()

    def condition(self, text: str | None, kind: str = "ConditionExpression") -> Condition | None:
        """The condition of this text, checked against the values' types; None without a text."""
        if text is None:
            return None
        parsed = self._parse(_condition, kind, text)
        _check(parsed, self.values, kind)
        return parsed

    def update(self, text: str | None) -> tuple[Action, ...]:
        """The actions of an update, in a form that cannot contradict itself."""
        return self._parse(_update, "UpdateExpression", text) if text is not None else ()

    def projection(self, text: str | None) -> tuple[Path, ...] | None:
        """The paths of a projection; None without a text."""
        return self._parse(_projection, "ProjectionExpression", text) if text is not None else None

    def check(self, *, any_expression: bool) -> None:
        """Refuse placeholders that no expression uses."""
        for kind, given, used in (
            ("Names", self.names.keys(), self._used_names),
            ("Values", self.values.keys(), self._used_values),
        ):
            if given and not any_expression:
                raise Invalid(
                    f"ExpressionAttribute{kind} can only be specified when using expressions"
                )
            if unused := given - used:
                raise Invalid(
                    f"Value provided in ExpressionAttribute{kind} unused in expressions: keys: "
                    f"{{{', '.join(sorted(unused))}}}"
                )

    def _parse(
        self,
        parse: Callable[
            [str, str, tuple[tuple[str, str], ...]], tuple[Parsed, frozenset[str], frozenset[str]]
        ],
        kind: str,
        text: str,
    ) -> Parsed:
        parsed, names, values = parse(kind, text, self._key)
        if undefined := values - self.values.keys():
            raise Invalid(
                f"Invalid {kind}: An expression attribute value used in expression is not defined; "
                f"attribute value: {min(undefined)}"
            )
        self._used_names |= names
        self._used_values |= values
        return parsed


@lru_cache(CACHED)
def _condition(
    kind: str, text: str, names: tuple[tuple[str, str], ...]
) -> tuple[Condition, frozenset[str], frozenset[str]]:
    parser = Parser(kind, text, dict(names))
    return parser.condition(), frozenset(parser.used_names), frozenset(parser.used_values)


@lru_cache(CACHED)
def _update(
    kind: str, text: str, names: tuple[tuple[str, str], ...]
) -> tuple[tuple[Action, ...], frozenset[str], frozenset[str]]:
    parser = Parser(kind, text, dict(names))
    actions = parser.update()
    refuse_overlaps(kind, [action.path for action in actions])
    return actions, frozenset(parser.used_names), frozenset(parser.used_values)


@lru_cache(CACHED)
def _projection(
    kind: str, text: str, names: tuple[tuple[str, str], ...]
) -> tuple[tuple[Path, ...], frozenset[str], frozenset[str]]:
    parser = Parser(kind, text, dict(names))
    paths = parser.projection()
    refuse_overlaps(kind, paths)
    return paths, frozenset(parser.used_names), frozenset(parser.used_values)


def refuse_overlaps(kind: str, paths: Iterable[Path]) -> None:
    """Two paths may not be the same, one within the other, or of two kinds at one place."""
    earlier: list[Path] = []
    for path in paths:
        for other in earlier:
            pairs = list(zip(path.parts, other.parts, strict=False))
            differing = next((pair for pair in pairs if pair[0] != pair[1]), None)
            if differing is None:
                raise Invalid(
                    f"Invalid {kind}: Two document paths overlap with each other; must remove or "
                    "rewrite one of these paths;"
                )
            if isinstance(differing[0], int) is not isinstance(differing[1], int):
                raise Invalid(
                    f"Invalid {kind}: Two document paths conflict with each other; must remove or "
                    "rewrite one of these paths;"
                )
        earlier.append(path)


def find(item: Item, path: Path) -> Value | None:
    """The value at a path, or None."""
    found = item.get(path.parts[0])  # type: ignore[arg-type]
    for part in path.parts[1:]:
        if found is None:
            return None
        kind, content = found
        if kind == "M" and isinstance(part, str):
            found = content.get(part)
        elif kind == "L" and isinstance(part, int):
            found = content[part] if part < len(content) else None
        else:
            return None
    return found


def project(item: Item, paths: Iterable[Path]) -> Item:
    """The part of an item that lies at the paths; of lists the chosen elements, closed up."""
    kept: Item = _pruned(item, [path.parts for path in paths])
    return kept


def _pruned(content: Any, paths: list[tuple[str | int, ...]]) -> Any:
    """What of a map or list's content lies at the paths below it."""
    below: dict[str | int, list[tuple[str | int, ...]]] = {}
    for head, *rest in paths:
        below.setdefault(head, []).append(tuple(rest))
    is_map = isinstance(content, dict)
    kept: dict[str | int, Value] = {}
    for head, rests in below.items():
        if isinstance(head, str) is not is_map:
            continue
        value = find({"": ("M" if is_map else "L", content)}, Path(("", head)))
        if value is None:
            continue
        if () in rests:
            kept[head] = value
        elif value[0] in ("M", "L") and (inner := _pruned(value[1], rests)):
            kept[head] = (value[0], inner)
    return kept if is_map else tuple(kept[index] for index in sorted(kept))


def holds(condition: Condition | None, item: Item, values: Values) -> bool:
    """Whether the item, which may be empty, meets the condition."""
    match condition:
        case None:
            return True
        case Logic("AND", parts):
            return all(holds(part, item, values) for part in parts)
        case Logic("OR", parts):
            return any(holds(part, item, values) for part in parts)
        case Logic(_, parts):
            return not holds(parts[0], item, values)
        case Call(function, operands):
            return _predicate(function, [_value(each, item, values) for each in operands])
        case Comparison(operator, left, right):
            return compare(
                operator,
                _value(left, item, values),
                [_value(each, item, values) for each in right],
            )


def compare(operator: str, left: Value | None, right: list[Value | None]) -> bool:
    """Compare values; one that is missing equals nothing and has no order."""
    if operator == "IN":
        return left is not None and left in right
    if operator == "<>":
        return left != right[0]
    if left is None or any(each is None or each[0] != left[0] for each in right):
        return False
    others = [each for each in right if each is not None]
    if operator == "=":
        return left == others[0]
    if left[0] not in ORDERED:
        return False
    if operator == "BETWEEN":
        return bool(others[0][1] <= left[1] <= others[1][1])
    # Python orders text by code point, which is the order of its UTF-8 bytes.
    one, other = left[1], others[0][1]
    match operator:
        case "<":
            return bool(one < other)
        case "<=":
            return bool(one <= other)
        case ">":
            return bool(one > other)
    return bool(one >= other)


def _predicate(function: str, operands: list[Value | None]) -> bool:
    value = operands[0]
    if function == "attribute_exists":
        return value is not None
    if function == "attribute_not_exists":
        return value is None
    other = operands[1]
    if value is None or other is None:
        return False
    if function == "attribute_type":
        return bool(value[0] == other[1])
    if function == "begins_with":
        return value[0] == other[0] and value[0] in ("S", "B") and value[1].startswith(other[1])
    if value[0] in SETS:
        return SETS[value[0]] == other[0] and other[1] in value[1]
    if value[0] == "L":
        return other in value[1]
    return value[0] == other[0] and value[0] in ("S", "B") and other[1] in value[1]


def _value(operand: Operand, item: Item, values: Values) -> Value | None:
    match operand:
        case Path():
            return find(item, operand)
        case Placeholder(name):
            return values[name]
        case Call(_, (inner,)):
            value = _value(inner, item, values)
            if value is None or value[0] in ("N", "BOOL", "NULL"):
                return None
            return "N", Decimal(len(value[1]))
    raise AssertionError(operand)


def _check(condition: Condition, values: Values, kind: str) -> None:
    """Refuse what the types of the values alone show to be wrong, evaluated or not."""
    match condition:
        case Logic(_, parts):
            for part in parts:
                _check(part, values, kind)
        case Call("begins_with", operands):
            for operand in operands:
                _check_type(operand, values, kind, "begins_with", {"S", "B"})
        case Call("attribute_type", (_, Placeholder(name))):
            if values[name][0] != "S" or values[name][1] not in TYPES:
                raise Invalid(f"Invalid {kind}: Invalid attribute type name found; type: {name}")
        case Comparison("BETWEEN", _, (Placeholder(low), Placeholder(high))):
            for operand in condition.right:
                _check_type(operand, values, kind, "BETWEEN", ORDERED)
            one, other = values[low], values[high]
            if one[0] != other[0]:
                raise Invalid(
                    f"Invalid {kind}: The BETWEEN operator requires same data type for lower and "
                    "upper bounds;"
                )
            if one[1] > other[1]:
                raise Invalid(
                    f"Invalid {kind}: The BETWEEN operator requires upper bound to be greater than "
                    "or equal to lower bound;"
                )
        case Comparison(("<" | "<=" | ">" | ">=") as operator, left, right):
            for operand in (left, *right):
                _check_type(operand, values, kind, operator, ORDERED)


def _check_type(
    operand: Operand, values: Values, kind: str, operator: str, allowed: set[str]
) -> None:
    if isinstance(operand, Placeholder) and values[operand.name][0] not in allowed:
        raise Invalid(
            f"Invalid {kind}: Incorrect operand type for operator or function; operator or "
            f"function: {operator}, operand type: {values[operand.name][0]}"
        )
