"""Holds an answer of a handler to the OpenAPI document of today's contract."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from fanfold import contract
from tools.contract_docs import openapi

Json = dict[str, Any]


@cache
def document() -> Json:
    """Today's document, in which no object of an answer has a field that is not documented."""
    found = openapi.document()
    for schema in found["components"]["schemas"].values():
        schema.setdefault("additionalProperties", False)
    return found


def check(route_key: str, raw: Json) -> None:
    """Check status, headers and body; `raw` is a handler's answer to API Gateway."""
    route = next((route for route in contract.ROUTES if route.key == route_key), None)
    if route is None:
        assert raw["statusCode"] == 404, raw
        return
    operation = document()["paths"][route.path][route.method.lower()]
    documented = resolve(operation["responses"].get(str(raw["statusCode"])))
    assert documented is not None, f"{route_key} answers {raw['statusCode']}, undocumented: {raw}"
    headers = raw.get("headers", {})
    assert headers["cache-control"] == contract.CACHE_CONTROL, raw
    if "content" not in documented:
        assert "body" not in raw, raw
        return
    content = documented["content"][headers["content-type"]]
    valid(content["schema"]).validate(json.loads(raw["body"]))


def resolve(content: Any) -> Any:
    """What a reference refers to, or the content itself."""
    if not isinstance(content, dict) or "$ref" not in content:
        return content
    found: Any = document()
    for name in content["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return found


def valid(schema: Json) -> Draft202012Validator:
    """A validator of a schema of the document."""
    components = document()["components"]
    return Draft202012Validator({**schema, "components": components})
