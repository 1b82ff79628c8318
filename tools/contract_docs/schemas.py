"""JSON Schema of the types in `fanfold/answers.py`."""

from __future__ import annotations

from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Schema = dict[str, Any]

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", NoneType: "null"}


def schema_of(kind: Any) -> Schema:
    """The schema of an annotation; a TypedDict becomes a reference to its component."""
    if is_typeddict(kind):
        return {"$ref": f"#/components/schemas/{kind.__name__}"}
    if kind is Any:
        return {}
    if kind in _NAMES:
        return {"type": _NAMES[kind]}
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        extra: Schema = {}
        for each in parts[1:]:
            extra |= each.keywords
        return _with(schema_of(parts[0]), extra)
    if origin is NotRequired:
        return schema_of(parts[0])
    if origin is list:
        return {"type": "array", "items": schema_of(parts[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(parts[1]) or True}
    if origin in (Union, UnionType):
        return {"anyOf": [schema_of(each) for each in parts]}
    raise TypeError(f"No schema is known for {kind!r}; add it to tools/contract_docs/schemas.py.")


def component(kind: Any) -> Schema:
    """The schema of a TypedDict, with references to others.

    Fields that are not named here may be added later, so clients ignore them.
    """
    fields = get_type_hints(kind, include_extras=True)
    schema: Schema = {"type": "object"}
    if kind.__doc__:
        schema["description"] = " ".join(kind.__doc__.split())
    schema["properties"] = {name: schema_of(each) for name, each in fields.items()}
    schema["required"] = [name for name in fields if name in kind.__required_keys__]
    return schema


def components(*kinds: Any) -> dict[str, Schema]:
    """The components of these TypedDicts and of all that they refer to, by name."""
    found: dict[str, Schema] = {}
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        if kind.__name__ not in found:
            found[kind.__name__] = component(kind)
            hints = get_type_hints(kind, include_extras=True)
            waiting += [each for hint in hints.values() for each in _referred(hint)]
    return found


def _referred(kind: Any) -> list[Any]:
    if is_typeddict(kind):
        return [kind]
    return [found for part in get_args(kind) for found in _referred(part)]


def _with(schema: Schema, extra: Schema) -> Schema:
    """The schema with keywords of an annotation; those of a value go beside the value's type."""
    about_value = {"pattern", "format", "maxLength", "minLength", "minimum", "maximum"}
    if "anyOf" in schema:
        inner = {name: each for name, each in extra.items() if name in about_value}
        first, *rest = schema["anyOf"]
        outer = {name: each for name, each in extra.items() if name not in about_value}
        return {"anyOf": [{**first, **inner}, *rest], **outer}
    return {**schema, **extra}
