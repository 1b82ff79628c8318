"""Key conditions: which partition, and which range of sort keys.

Source: "Key condition expressions for the Query operation" of the Developer Guide.
"""

from __future__ import annotations

from typing import Any

from proof.model.dynamodb.expressions.evaluation import Values
from proof.model.dynamodb.expressions.syntax import (
    Call,
    Comparison,
    Condition,
    Logic,
    Operand,
    Path,
    Placeholder,
)
from proof.model.dynamodb.partitions import EVERYTHING, Range
from proof.model.dynamodb.tables import KeySchema, check_key
from proof.model.dynamodb.values import Value
from proof.model.errors import Invalid


def read_key_condition(
    schema: KeySchema, condition: Condition, values: Values
) -> tuple[Any, Range]:
    """The partition key and the range that a condition asks for; raises `Invalid`."""
    found: dict[str, tuple[str, list[Value]]] = {}
    for part in _parts(condition):
        name, operator, operands = _read(part, values)
        if name in found:
            raise _invalid("KeyConditionExpressions must only contain one condition per key")
        if name not in schema.names:
            missed = next((each for each in schema.names if each not in found), schema.partition)
            raise Invalid(f"Query condition missed key schema element: {missed}")
        for operand in operands:
            if operand[0] != schema.type_of(name):
                raise Invalid.value("Condition parameter type does not match schema type")
            check_key(schema, {name: operand})
        found[name] = operator, operands
    if schema.partition not in found:
        raise Invalid(f"Query condition missed key schema element: {schema.partition}")
    operator, operands = found.pop(schema.partition)
    if operator != "=":
        raise Invalid("Query key condition not supported")
    within = _range(*next(iter(found.values()))) if found else EVERYTHING
    return operands[0][1], within


def refuse_keys(schema: KeySchema, only: Condition | None) -> None:
    if only is not None:
        for path in _paths(only):
            if path.parts[0] in schema.names:
                raise Invalid(
                    "Filter Expression can only contain non-primary key attributes: Primary key "
                    f"attribute: {path.parts[0]}"
                )


def _parts(condition: Condition) -> list[Condition]:
    """The conditions that are joined by AND."""
    match condition:
        case Logic("AND", parts):
            return [each for part in parts for each in _parts(part)]
        case Logic(operator, _):
            raise _invalid(f"Invalid operator used in KeyConditionExpression: {operator}")
    return [condition]


def _read(condition: Condition, values: Values) -> tuple[str, str, list[Value]]:
    match condition:
        case Comparison("=" | "<" | "<=" | ">" | ">=" | "BETWEEN" as operator, left, right):
            operands: tuple[Operand, ...] = right
        case Call("begins_with" as operator, (left, *rest)):
            operands = tuple(rest)
        case Comparison(operator, _, _) | Call(operator, _):
            raise _invalid(f"Invalid operator used in KeyConditionExpression: {operator}")
        case _:
            raise AssertionError(condition)
    if isinstance(left, Placeholder) and isinstance(operands[0], Path) and len(operands) == 1:
        left, operands = operands[0], (left,)  # `:user = user_id` says the same
        turned = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
        operator = turned.get(operator, operator)
    if not isinstance(left, Path) or len(left.parts) != 1:
        raise _invalid("The key must be a top-level attribute")
    given = [values[each.name] for each in operands if isinstance(each, Placeholder)]
    if len(given) != len(operands):
        raise _invalid("A key is compared with a value only")
    return str(left.parts[0]), operator, given


def _range(operator: str, operands: list[Value]) -> Range:
    value = operands[0][1]
    match operator:
        case "=":
            return Range(value, value, is_point=True)
        case "<" | "<=":
            return Range(high=value, high_included=operator == "<=")
        case ">" | ">=":
            return Range(value, low_included=operator == ">=")
        case "BETWEEN":
            return Range(value, operands[1][1])
    return Range(prefix=value)


def _invalid(reason: str) -> Invalid:
    return Invalid(f"Invalid KeyConditionExpression: {reason}")


def _paths(node: Condition | Operand) -> list[Path]:
    match node:
        case Path():
            return [node]
        case Logic(_, parts):
            return [path for part in parts for path in _paths(part)]
        case Call(_, operands):
            return [path for each in operands for path in _paths(each)]
        case Comparison(_, left, right):
            return [path for each in (left, *right) for path in _paths(each)]
    return []
