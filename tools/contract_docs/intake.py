"""JSON Schemas of the requests and messages in `functions/_intake.py`."""

from __future__ import annotations

from typing import Any

from fanfold import contract

Json = dict[str, Any]

_ID: Json = {"pattern": f"^{contract.ID_PATTERN}$", "type": "string"}
_FIELDS: dict[str, Json] = {
    "version": {"const": contract.VERSION, "type": "integer"},
    "publisher_id": _ID,
    "ref_id": _ID,
    "user_id": _ID,
    "published_at": {"format": "date-time", "type": "string"},
    "private": {"type": "boolean"},
    "approved": {
        "description": "Whether the publisher approves it, too: so it is no request.",
        "type": "boolean",
    },
    "body": {
        "additionalProperties": True,
        "description": (
            f"Opaque, and kept as it was sent: at most {contract.MAX_BODY_BYTES} bytes as compact "
            f"JSON in UTF-8, and {contract.MAX_BODY_LEVELS} levels."
        ),
        "type": "object",
    },
}


def schema_of(model: Any, *, kind: str = "") -> Json:
    """The schema of a request, or of a message of this type. A field with a default may be null."""
    fields = {**_FIELDS, "type": {"const": kind, "type": "string"}}
    schema: Json = {"additionalProperties": False, "properties": {}}
    if not model.__doc__.startswith(f"{model.__name__}("):  # not the default one of a NamedTuple
        schema = {"additionalProperties": False, "description": model.__doc__, "properties": {}}
    for name in model._fields:
        field = {**fields[name], "title": name.replace("_", " ").title()}
        if name in model._field_defaults:
            default = model._field_defaults[name]
            field = {
                "anyOf": [fields[name], {"type": "null"}],
                "default": default,
                "title": field["title"],
            }
        schema["properties"][name] = dict(sorted(field.items()))
    if required := [name for name in model._fields if name not in model._field_defaults]:
        schema["required"] = required
    return {**schema, "title": model.__name__, "type": "object"}
