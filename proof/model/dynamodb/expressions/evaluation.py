"""Evaluates conditions and projections, and checks all expressions of a request.

An expression is parsed once for each text and set of names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, TypeVar

from proof.model.dynamodb.expressions.parser import Parser
from proof.model.dynamodb.expressions.syntax import (
    Action,
    Call,
    Comparison,
    Condition,
    Logic,
    Operand,
    Path,
    Placeholder,
)
from proof.model.dynamodb.values import SETS, Item, Value, item_from_wire
from proof.model.errors import Invalid

Values = Mapping[str, Value]
Parsed = TypeVar("Parsed")
# A program has few texts; its calls differ only in the values.
CACHED = 4096
TYPES = {"S", "N", "B", "SS", "NS", "BS", "M", "L", "NULL", "BOOL"}
ORDERED = {"S", "N", "B"}
COMMANDS = {"<": lt, "<=": le, ">": gt, ">=": ge}


class Expressions:
    """The expressions of one request and its placeholders; call `check` after the last one."""

    def __init__(self, names: Mapping[str, str], values: Values) -> None:
        if names:
            _check_placeholders("Names", "#", tuple(names))
        if values:
            _check_placeholders("Values", ":", tuple(values))
        self.names = names
        self.values = values
        self._key = tuple(names.items())
        self._unused = {*names, *values}
        self._any = False

    @staticmethod
    def of(request: Mapping[str, Any]) -> Expressions:
        names = request.get("ExpressionAttributeNames")
        values = request.get("ExpressionAttributeValues")
        for kind, given in (("Names", names), ("Values", values)):
            if given is not None and not given:
                raise Invalid(f"ExpressionAttribute{kind} must not be empty")
        return Expressions(names or {}, item_from_wire(values or {}))

    def condition(self, text: str | None, kind: str = "ConditionExpression") -> Condition | None:
        """The condition of this text, checked against the values' types; None without a text."""
        if text is None:
            return None
        parsed = self._parse(Parser.condition, kind, text)
        _check(parsed, self.values, kind)
        return parsed

    def update(self, text: str | None) -> tuple[Action, ...]:
        """The actions of an update; none without a text."""
        return () if text is None else self._parse(Parser.update, "UpdateExpression", text)

    def projection(self, text: str | None) -> tuple[Path, ...] | None:
        """The paths of a projection; None without a text."""
        if text is None:
            return None
        return self._parse(Parser.projection, "ProjectionExpression", text)

    def check(self) -> None:
        if not self._unused:
            return
        for kind, given in (("Names", self.names.keys()), ("Values", self.values.keys())):
            if given and not self._any:
                raise Invalid(
                    f"ExpressionAttribute{kind} can only be specified when using expressions"
                )
            if unused := given & self._unused:
                raise Invalid(
                    f"Value provided in ExpressionAttribute{kind} unused in expressions: keys: "
                    f"{{{', '.join(sorted(unused))}}}"
                )

    def _parse(self, rule: Callable[[Parser], Parsed], kind: str, text: str) -> Parsed:
        self._any = True
        parsed: Parsed
        parsed, names, values = _parsed(rule, kind, text, self._key)
        if undefined := [value for value in values if value not in self.values]:
            raise Invalid(
                f"Invalid {kind}: An expression attribute value used in expression is not defined; "
                f"attribute value: {min(undefined)}"
            )
        self._unused -= names
        self._unused -= values
        return parsed


@lru_cache(CACHED)
def _check_placeholders(kind: str, sign: str, given: tuple[str, ...]) -> None:
    for name in given:
        if not name.startswith(sign) or len(name) < 2:
            raise Invalid(
                f'ExpressionAttribute{kind} contains invalid key: Syntax error; key: "{name}"'
            )


@lru_cache(CACHED)
def _parsed(
    rule: Callable[[Parser], Any], kind: str, text: str, names: tuple[tuple[str, str], ...]
) -> tuple[Any, frozenset[str], frozenset[str]]:
    """The syntax tree of a text by a grammar rule, and the names and values that it uses."""
    parser = Parser(kind, text, dict(names))
    return rule(parser), frozenset(parser.used_names), frozenset(parser.used_values)


def find(item: Item, path: Path) -> Value | None:
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
    """The parts of an item at the paths; lists keep the chosen elements without gaps."""
    kept: Item = _pruned(item, [path.parts for path in paths])
    return kept


def _pruned(content: Any, paths: list[tuple[str | int, ...]]) -> Any:
    """The parts of a map or list at the paths below it."""
    below: dict[str | int, list[tuple[str | int, ...]]] = {}
    for head, *rest in paths:
        below.setdefault(head, []).append(tuple(rest))
    is_map = isinstance(content, dict)
    places = content if is_map else range(len(content))
    kept: dict[str | int, Value] = {}
    for head, rests in below.items():
        if head not in places:
            continue
        value = content[head]
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
                operator, _value(left, item, values), [_value(each, item, values) for each in right]
            )


def compare(operator: str, left: Value | None, right: list[Value | None]) -> bool:
    """Compare values; a missing value equals nothing and has no order."""
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
    return bool(COMMANDS[operator](left[1], others[0][1]))


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
    """Refuse a condition whose values have wrong types for any item."""
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
            between = f"Invalid {kind}: The BETWEEN operator requires"
            if one[0] != other[0]:
                raise Invalid(f"{between} same data type for lower and upper bounds;")
            if one[1] > other[1]:
                raise Invalid(f"{between} upper bound to be greater than or equal to lower bound;")
        case Comparison(operator, left, right) if operator in COMMANDS:
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
