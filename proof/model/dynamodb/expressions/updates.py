"""Applies update expressions to the old image of an item.

Source: "Update expressions" of the Developer Guide. Every operand is read from the old image.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

from proof.model.dynamodb.expressions.evaluation import Values, find
from proof.model.dynamodb.expressions.syntax import Action, Call, Operand, Path, Placeholder
from proof.model.dynamodb.values import SETS, Item, Value, add
from proof.model.errors import Invalid


def check_update(actions: Sequence[Action], values: Values, keys: Collection[str]) -> None:
    """Refuse updates of keys, and values with wrong types for their clause."""
    for action in actions:
        name = action.path.parts[0]
        if name in keys:
            raise Invalid.value(
                f"Cannot update attribute {name}. This attribute is part of the key"
            )
        if isinstance(action.operand, Placeholder):
            kind = values[action.operand.name][0]
            allowed = {"ADD": {"N", *SETS}, "DELETE": set(SETS)}.get(action.verb)
            if allowed and kind not in allowed:
                raise _wrong_operand(action.verb, kind)
        elif isinstance(action.operand, Call):
            _check_call(action.operand, values)


def _check_call(call: Call, values: Values) -> None:
    allowed = {"+": "N", "-": "N", "list_append": "L"}.get(call.function)
    for operand in call.operands:
        if isinstance(operand, Call):
            _check_call(operand, values)
        elif isinstance(operand, Placeholder) and allowed:
            kind = values[operand.name][0]
            if kind != allowed:
                raise _wrong_operand(call.function, kind)


def apply(actions: Sequence[Action], old: Item, values: Values) -> Item:
    """The new image of the item after all actions."""
    new = dict(old)
    later: list[Action] = []
    for action in actions:
        match action.verb:
            case "SET":
                assert action.operand is not None
                _put(new, action.path, _evaluate(action.operand, old, values))
            case "REMOVE":
                later.append(action)
            case _:
                assert isinstance(action.operand, Placeholder)
                value = values[action.operand.name]
                change = _added if action.verb == "ADD" else _deleted
                changed = change(find(old, action.path), value)
                if changed is not None:
                    _put(new, action.path, changed)
                elif find(old, action.path) is not None:
                    _remove(new, action.path)
    # Paths name list elements by their old indexes, so the last is removed first.
    for action in sorted(later, key=lambda each: _place(each.path), reverse=True):
        _remove(new, action.path)
    return new


def _place(path: Path) -> int:
    last = path.parts[-1]
    return last if isinstance(last, int) else -1


def _evaluate(operand: Operand, old: Item, values: Values) -> Value:
    match operand:
        case Placeholder(name):
            return values[name]
        case Path():
            found = find(old, operand)
            if found is None:
                raise Invalid(
                    "The provided expression refers to an attribute that does not exist in the item"
                )
            return found
        case Call("if_not_exists", (Path() as path, otherwise)):
            found = find(old, path)
            return found if found is not None else _evaluate(otherwise, old, values)
        case Call(function, (first, second)):
            one, other = _evaluate(first, old, values), _evaluate(second, old, values)
            kind = "L" if function == "list_append" else "N"
            if one[0] != kind or other[0] != kind:
                raise _wrong_type()
            if function == "list_append":
                return "L", one[1] + other[1]
            return "N", add(one[1], other[1] if function == "+" else -other[1])
    raise AssertionError(operand)


def _added(old: Value | None, value: Value) -> Value:
    if old is None:
        return value
    if old[0] != value[0]:
        raise _wrong_type()
    if value[0] == "N":
        total: Decimal = add(old[1], value[1])
        return "N", total
    return value[0], old[1] | value[1]


def _deleted(old: Value | None, value: Value) -> Value | None:
    """The rest of the set; None if it would be empty, because DynamoDB has no empty set."""
    if old is None:
        return None
    if old[0] != value[0]:
        raise _wrong_type()
    left = old[1] - value[1]
    return (value[0], left) if left else None


def _put(item: Item, path: Path, value: Value) -> None:
    holder, last = _holder(item, path)
    if isinstance(holder, list):
        assert isinstance(last, int)
        if last < len(holder):
            holder[last] = value
        else:
            holder.append(value)  # DynamoDB appends elements beyond the end
    else:
        holder[last] = value
    _close(item, path, holder)


def _remove(item: Item, path: Path) -> None:
    holder, last = _holder(item, path)
    if isinstance(holder, list):
        assert isinstance(last, int)
        del holder[last : last + 1]
    else:
        holder.pop(last, None)
    _close(item, path, holder)


def _holder(item: Item, path: Path) -> tuple[Any, str | int]:
    """A fresh copy of the map or list that holds the path's last part, and that part."""
    last = path.parts[-1]
    if len(path.parts) == 1:
        return item, last
    parent = find(item, Path(path.parts[:-1]))
    if parent is not None and parent[0] == "M" and isinstance(last, str):
        return dict(parent[1]), last
    if parent is not None and parent[0] == "L" and isinstance(last, int):
        return list(parent[1]), last
    raise Invalid("The document path provided in the update expression is invalid for update")


def _close(item: Item, path: Path, holder: Any) -> None:
    """Put the changed holder into copies of its ancestors: images never change."""
    if len(path.parts) == 1:
        return
    content = ("M", holder) if isinstance(holder, dict) else ("L", tuple(holder))
    _put(item, Path(path.parts[:-1]), content)


def _wrong_operand(operator: str, kind: str) -> Invalid:
    return Invalid(
        "Invalid UpdateExpression: Incorrect operand type for operator or function; operator: "
        f"{operator}, operand type: {kind}"
    )


def _wrong_type() -> Invalid:
    return Invalid("An operand in the update expression has an incorrect data type")
