"""Changes that would break a client of the last release, and those that would not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from contract_docs import files, messages, openapi
from contract_docs.breaking import broken_api, broken_message

Json = dict[str, Any]
Change = Callable[[Json], object]


def frozen(name: str) -> Json:
    content: Json = json.loads((files.FROZEN / name).read_text())
    return content


def test_the_api_of_today_breaks_no_client_of_the_last_release() -> None:
    found = broken_api(frozen(files.OPENAPI), openapi.document())
    assert not found, "\n".join(found)


def test_the_messages_of_the_last_release_are_taken_today() -> None:
    today = messages.documents()
    released = [path.name for path in (files.FROZEN / files.SCHEMAS).iterdir()]
    assert released
    for name in released:
        old = frozen(f"{files.SCHEMAS}/{name}")
        assert broken_message(old, today[name.removesuffix(".json")]) == []


DOCUMENT: Json = {
    "security": [{"token": []}],
    "paths": {
        "/posts": {
            "post": {
                "operationId": "publish",
                "parameters": [
                    {"name": "key", "in": "header", "schema": {"type": "string", "maxLength": 9}},
                    {
                        "name": "limit",
                        "in": "query",
                        "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 50},
                    },
                ],
                "requestBody": {
                    "required": False,
                    "content": {"application/json": {"schema": {"$ref": "#/components/s/Post"}}},
                },
                "responses": {
                    "200": {
                        "headers": {"Cache": {"required": True, "schema": {"const": "no"}}},
                        "content": {
                            "application/json": {"schema": {"$ref": "#/components/s/Page"}}
                        },
                    },
                    "204": {"description": "Done."},
                    "404": {"$ref": "#/components/r/gone"},
                },
            }
        }
    },
    "components": {
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        "s": {
            "Post": {
                "type": "object",
                "additionalProperties": False,
                "properties": {
                    "title": {"type": "string", "pattern": "^a"},
                    "body": {"anyOf": [{"type": "object"}, {"type": "null"}]},
                    "kind": {"type": "string", "enum": ["a", "b"]},
                    "tags": {
                        "type": "object",
                        "properties": {"x": {"type": "string"}},
                        "additionalProperties": {"type": "string", "maxLength": 9},
                    },
                },
                "required": ["title"],
            },
            "Page": {
                "type": "object",
                "properties": {
                    "entries": {"type": "array", "items": {"type": "string", "maxLength": 9}},
                    "next": {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]},
                    "count": {"type": "number", "minimum": 0},
                    "extra": {"type": "string"},
                    "labels": {
                        "type": "object",
                        "additionalProperties": {"type": "string", "maxLength": 9},
                    },
                },
                "required": ["entries", "next", "count"],
            },
        },
        "r": {
            "gone": {
                "x-problems": ["no-post"],
                "content": {"application/problem+json": {"schema": {"type": "object"}}},
            }
        },
    },
}


def post(document: Json) -> Json:
    found: Json = document["paths"]["/posts"]["post"]
    return found


def sent(document: Json) -> Json:
    found: Json = document["components"]["s"]["Post"]
    return found


def page(document: Json) -> Json:
    found: Json = document["components"]["s"]["Page"]
    return found


def tags(document: Json) -> Json:
    found: Json = sent(document)["properties"]["tags"]
    return found


def labels(document: Json) -> Json:
    found: Json = page(document)["properties"]["labels"]
    return found


def scheme(document: Json) -> Json:
    found: Json = document["components"]["securitySchemes"]["token"]
    return found


def ok(document: Json) -> Json:
    found: Json = post(document)["responses"]["200"]
    return found


NEW_FIELD = {"type": "string"}

BREAKING: dict[str, Change] = {
    "a path is gone": lambda d: d["paths"].pop("/posts"),
    "a method is gone": lambda d: d["paths"]["/posts"].pop("post"),
    "another security": lambda d: d["security"].append({"key": []}),
    "another security of one operation": lambda d: post(d).update(security=[{"key": []}]),
    "no security of one operation": lambda d: post(d).update(security=[]),
    "another scheme": lambda d: scheme(d).update(scheme="basic"),
    "a scheme is gone": lambda d: d["components"]["securitySchemes"].clear(),
    "another name": lambda d: post(d).update(operationId="other"),
    "a parameter is gone": lambda d: post(d)["parameters"].pop(),
    "a parameter is required": lambda d: post(d)["parameters"][0].update(required=True),
    "a new required parameter": lambda d: post(d)["parameters"].append(
        {"name": "x", "in": "query", "required": True, "schema": {}}
    ),
    "a shorter parameter": lambda d: post(d)["parameters"][0]["schema"].update(maxLength=8),
    "a parameter of another type": lambda d: post(d)["parameters"][0]["schema"].update(
        type="integer"
    ),
    "a lower maximum": lambda d: post(d)["parameters"][1]["schema"].update(maximum=99),
    "a higher minimum": lambda d: post(d)["parameters"][1]["schema"].update(minimum=2),
    "another style": lambda d: post(d)["parameters"][1].update(style="pipeDelimited"),
    "a list in one parameter": lambda d: post(d)["parameters"][1].update(explode=False),
    "a list in several parameters": lambda d: post(d)["parameters"][0].update(explode=True),
    "a parameter with what is not judged": lambda d: post(d)["parameters"][0].update(content={}),
    "another default": lambda d: post(d)["parameters"][1]["schema"].update(default=20),
    "a new format": lambda d: post(d)["parameters"][0]["schema"].update(format="uuid"),
    "the body is required": lambda d: post(d)["requestBody"].update(required=True),
    "no body": lambda d: post(d).pop("requestBody"),
    "another content type": lambda d: post(d)["requestBody"].update(
        content={"text/plain": {"schema": {}}}
    ),
    "a required field": lambda d: sent(d)["required"].append("kind"),
    "a field is refused": lambda d: sent(d)["properties"].pop("kind"),
    "another pattern": lambda d: sent(d)["properties"]["title"].update(pattern="^b"),
    "null is refused": lambda d: sent(d)["properties"].update(body={"type": "object"}),
    "a value is refused": lambda d: sent(d)["properties"]["kind"].update(enum=["a"]),
    "only one value": lambda d: sent(d)["properties"]["title"].update(const="a"),
    "an answer is gone": lambda d: post(d)["responses"].pop("200"),
    "an error is gone": lambda d: post(d)["responses"].pop("404"),
    "a redirect": lambda d: post(d)["responses"].update({"307": {}}),
    "any other answer": lambda d: post(d)["responses"].update({"default": {}}),
    "an answer of 201": lambda d: post(d)["responses"].update({"201": {}}),
    "a body where none was": lambda d: post(d)["responses"]["204"].update(
        content={"application/json": {"schema": {}}}
    ),
    "no JSON": lambda d: ok(d).update(content={"text/html": {"schema": {}}}),
    "a header is gone": lambda d: ok(d).update(headers={}),
    "a header is optional": lambda d: ok(d)["headers"]["Cache"].update(required=False),
    "another header": lambda d: ok(d)["headers"]["Cache"]["schema"].update(const="yes"),
    "a field is gone": lambda d: (page(d)["properties"].pop("count"), page(d)["required"].pop()),
    "an optional field is gone": lambda d: page(d)["properties"].pop("extra"),
    "a field may be missing": lambda d: page(d)["required"].remove("next"),
    "a field may be null": lambda d: page(d)["properties"].update(
        count={"anyOf": [{"type": "number", "minimum": 0}, {"type": "null"}]}
    ),
    "a field of another type": lambda d: page(d)["properties"].update(count={"type": "string"}),
    "a longer answer": lambda d: page(d)["properties"]["entries"]["items"].update(maxLength=10),
    "an answer without bounds": lambda d: page(d)["properties"]["count"].pop("minimum"),
    "a longer cursor": lambda d: page(d)["properties"]["next"]["anyOf"][0].update(maxLength=10),
    "another problem": lambda d: d["components"]["r"]["gone"].update({"x-problems": ["lost"]}),
    "shorter tags": lambda d: tags(d)["additionalProperties"].update(maxLength=8),
    "no other tags": lambda d: tags(d).update(additionalProperties=False),
    "a tag of another type": lambda d: tags(d)["properties"].update(y={"type": "integer"}),
    "a tag that is like the others": lambda d: tags(d).update(properties={}),
    "longer labels": lambda d: labels(d)["additionalProperties"].update(maxLength=10),
    "labels of any kind": lambda d: labels(d).update(additionalProperties={}),
    "a label of another type": lambda d: labels(d).update(properties={"x": {"type": "integer"}}),
    "what is not judged": lambda d: page(d).update({"not": {}}),
}

HARMLESS: dict[str, Change] = {
    "nothing": lambda _: None,
    "a new path": lambda d: d["paths"].update({"/more": {"get": {}}}),
    "a new parameter": lambda d: post(d)["parameters"].append(
        {"name": "x", "in": "query", "schema": {}}
    ),
    "a style that was meant": lambda d: post(d)["parameters"][1].update(style="form", explode=True),
    "security that was meant": lambda d: post(d).update(security=[{"token": []}]),
    "another scheme beside it": lambda d: d["components"]["securitySchemes"].update(key={}),
    "a scheme in other words": lambda d: scheme(d).update(description="A token."),
    "longer tags": lambda d: tags(d)["additionalProperties"].update(maxLength=10),
    "tags of any kind": lambda d: tags(d).update(additionalProperties=True),
    "a tag of any kind": lambda d: tags(d)["properties"].update(y={}),
    "shorter labels": lambda d: labels(d)["additionalProperties"].update(maxLength=8),
    "only labels that are named": lambda d: labels(d).update(additionalProperties=False),
    "a label like the others": lambda d: labels(d).update(
        properties={"x": {"type": "string", "maxLength": 9}}
    ),
    "a longer parameter": lambda d: post(d)["parameters"][0]["schema"].update(maxLength=10),
    "a higher maximum": lambda d: post(d)["parameters"][1]["schema"].update(maximum=101),
    "another order of parameters": lambda d: post(d)["parameters"].reverse(),
    "a new field to send": lambda d: sent(d)["properties"].update(more=NEW_FIELD),
    "a field less to send": lambda d: sent(d)["required"].clear(),
    "a new value to send": lambda d: sent(d)["properties"]["kind"]["enum"].append("c"),
    "any other field to send": lambda d: sent(d).pop("additionalProperties"),
    "null may be sent": lambda d: sent(d)["properties"].update(
        kind={"anyOf": [{"type": "string"}, {"type": "null"}]}
    ),
    "a new field": lambda d: page(d)["properties"].update(more=NEW_FIELD),
    "a new required field": lambda d: (
        page(d)["properties"].update(more=NEW_FIELD),
        page(d)["required"].append("more"),
    ),
    "never null": lambda d: page(d)["properties"].update(next={"type": "string", "maxLength": 9}),
    "whole numbers": lambda d: page(d)["properties"]["count"].update(type="integer"),
    "a new error": lambda d: post(d)["responses"].update({"409": {}}),
    "a new problem": lambda d: d["components"]["r"]["gone"]["x-problems"].append("lost"),
    "other words": lambda d: page(d).update(description="Other words."),
}


def changed(change: Change) -> Json:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    return document


@pytest.mark.parametrize("name", BREAKING)
def test_a_breaking_change_is_named(name: str) -> None:
    found = broken_api(DOCUMENT, changed(BREAKING[name]))
    assert found
    assert all(sentence.endswith(".") for sentence in found)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_clients_do_not_notice_breaks_nothing(name: str) -> None:
    assert broken_api(DOCUMENT, changed(HARMLESS[name])) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["required"].append("body"),
        lambda d: d["properties"].pop("kind"),
        lambda d: d["properties"]["title"].update(pattern="^b"),
    ],
)
def test_a_message_that_is_taken_no_more_is_named(change: Change) -> None:
    old = DOCUMENT["components"]["s"]["Post"]
    new = copy.deepcopy(old)
    assert broken_message(old, new) == []
    change(new)
    assert len(broken_message(old, new)) == 1
