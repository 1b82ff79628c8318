"""What in today's documents would break a client of the last release's.

A client sends what it sent before, so today's contract must accept that; and it ignores fields that
it does not know, so answers may have more, but nothing less and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

# Keywords that only describe. A default is judged where it is that of a parameter.
_PROSE = {"title", "description", "example", "examples", "default", "$schema"}
_UPPER = ("maximum", "maxLength", "maxItems", "maxProperties")
_LOWER = ("minimum", "minLength", "minItems", "minProperties")
_EXACT = ("pattern", "format")
# Of a parameter, apart from how it is written (`_written`).
_OF_PARAMETERS = {"name", "in", "required", "schema", "style", "explode", "allowReserved"}
# Of a security scheme: what only describes.
_OF_TOKENS = {"bearerFormat", *_PROSE}
_JUDGED = {
    *_UPPER,
    *_LOWER,
    *_EXACT,
    "$ref",
    "type",
    "const",
    "enum",
    "anyOf",
    "items",
    "properties",
    "required",
    "additionalProperties",
}


def broken_api(old: Json, new: Json) -> list[str]:
    """A sentence for each way in which the OpenAPI document `new` breaks clients of `old`."""
    return list(_Comparison(old, new).api())


def broken_message(old: Json, new: Json) -> list[str]:
    """Likewise of the JSON Schema of a message that clients send."""
    return list(_Comparison(old, new).fits(old, new, "the message"))


class _Comparison:
    def __init__(self, old: Json, new: Json) -> None:
        self.old, self.new = old, new

    def api(self) -> Iterator[str]:
        yield from self._schemes()
        for path, operations in self.old["paths"].items():
            for method, old in operations.items():
                where = f"{method.upper()} {path}"
                new = self.new["paths"].get(path, {}).get(method)
                if new is None:
                    yield f"{where} is gone."
                    continue
                if old["operationId"] != new["operationId"]:
                    yield f"{where} is called {new['operationId']} in generated clients."
                if self._security(old, self.old) != self._security(new, self.new):
                    yield f"{where} wants clients to identify themselves otherwise."
                yield from self._parameters(old, new, where)
                yield from self._request(old, new, where)
                yield from self._responses(old, new, where)

    def _schemes(self) -> Iterator[str]:
        after = _security_schemes(self.new)
        for name, scheme in _security_schemes(self.old).items():
            if after.get(name) != scheme:
                yield f"Clients have to identify themselves otherwise than by '{name}'."
        if self.old["security"] != self.new["security"]:
            yield "Clients have to identify themselves otherwise."

    @staticmethod
    def _security(operation: Json, document: Json) -> Any:
        return operation.get("security", document["security"])

    def _parameters(self, old: Json, new: Json, where: str) -> Iterator[str]:
        before = {(each["in"], each["name"]): each for each in old.get("parameters", [])}
        after = {(each["in"], each["name"]): each for each in new.get("parameters", [])}
        for key, each in before.items():
            here = f"{where}, parameter '{key[1]}'"
            if key not in after:
                yield f"{here} is refused."
                continue
            for name in after[key].keys() - _OF_PARAMETERS - _PROSE:
                yield _unknown(here, name)
            if _written(each) != _written(after[key]):
                yield f"{here} is written otherwise."
            if after[key].get("required") and not each.get("required"):
                yield f"{here} is required."
            if each["schema"].get("default") != after[key]["schema"].get("default"):
                yield f"{here} has another default."
            yield from self.fits(each["schema"], after[key]["schema"], here)
        for key in after.keys() - before.keys():
            if after[key].get("required"):
                yield f"{where} requires a new parameter '{key[1]}'."

    def _request(self, old: Json, new: Json, where: str) -> Iterator[str]:
        before, after = old.get("requestBody"), new.get("requestBody")
        if before is None or after is None:
            if before != after and (after is None or after.get("required")):
                yield f"{where} takes {'no' if after is None else 'only a'} body."
            return
        if after.get("required") and not before.get("required"):
            yield f"{where} requires a body."
        for kind, each in before["content"].items():
            if kind not in after["content"]:
                yield f"{where} takes no {kind}."
                continue
            yield from self.fits(each["schema"], after["content"][kind]["schema"], f"{where}, body")

    def _responses(self, old: Json, new: Json, where: str) -> Iterator[str]:
        before, after = old["responses"], new["responses"]
        for status in sorted(after.keys() - before.keys()):
            # Clients take an error that they do not know for the first of its hundred.
            if not status.startswith(("4", "5")):
                yield f"{where} answers {status}, which clients do not expect."
        for status, response in before.items():
            here = f"{where}, answer {status}"
            if status not in after:
                yield f"{here} is gone."
                continue
            was, now = _resolve(self.old, response), _resolve(self.new, after[status])
            for slug in set(was.get("x-problems", [])) - set(now.get("x-problems", [])):
                yield f"{here} is no '{slug}' any more."
            for name, header in was.get("headers", {}).items():
                kept = now.get("headers", {}).get(name)
                if kept is None or (header.get("required") and not kept.get("required")):
                    yield f"{here} may lack the header '{name}'."
                else:
                    inside = f"{here}, header '{name}'"
                    yield from self.fits(header["schema"], kept["schema"], inside, sent=False)
            for kind, each in was.get("content", {}).items():
                if kind not in now.get("content", {}):
                    yield f"{here} is no {kind} any more."
                    continue
                schema = now["content"][kind]["schema"]
                yield from self.fits(each["schema"], schema, here, sent=False)
            if "content" in now and "content" not in was:
                yield f"{here} has a body."

    def fits(self, old: Json, new: Json, where: str, *, sent: bool = True) -> Iterator[str]:
        """Why a value may pass one schema and not the other.

        What is `sent` passed the old schema and must pass the new one; for what is answered, it is
        the other way round.
        """
        old, new = _resolve(self.old, old), _resolve(self.new, new)
        for schema in (old, new):
            for name in schema.keys() - _JUDGED - _PROSE:
                if name not in ("components", "$defs"):
                    yield _unknown(where, name)
        inner, outer = (old, new) if sent else (new, old)
        if "anyOf" in inner or "anyOf" in outer:
            yield from self._branches(old, new, where, sent=sent)
            return
        if "type" in outer and inner.get("type") not in (outer["type"], *_wider(outer["type"])):
            yield f"{where} is {_shown(new)}, and was {_shown(old)}."
            return
        yield from _values(inner, outer, where)
        for name in _UPPER:
            if name in outer and inner.get(name, float("inf")) > outer[name]:
                yield f"{where} has another {name}: {new.get(name)}, and it was {old.get(name)}."
        for name in _LOWER:
            if name in outer and inner.get(name, float("-inf")) < outer[name]:
                yield f"{where} has another {name}: {new.get(name)}, and it was {old.get(name)}."
        for name in _EXACT:
            if name in outer and inner.get(name) != outer[name]:
                yield f"{where} has another {name}."
        if "items" in outer:
            here = f"{where}, an item"
            yield from self.fits(old.get("items", {}), new.get("items", {}), here, sent=sent)
        yield from self._fields(old, new, where, sent=sent)

    def _branches(self, old: Json, new: Json, where: str, *, sent: bool) -> Iterator[str]:
        before, after = old.get("anyOf", [old]), new.get("anyOf", [new])
        for branch in before if sent else after:
            found = [
                list(self.fits(*((branch, other) if sent else (other, branch)), where, sent=sent))
                for other in (after if sent else before)
            ]
            if all(found):
                yield min(found, key=len)[0]

    def _fields(self, old: Json, new: Json, where: str, *, sent: bool) -> Iterator[str]:
        inner, outer = (old, new) if sent else (new, old)
        for name in sorted(set(outer.get("required", [])) - set(inner.get("required", []))):
            change = "is required" if sent else "may be missing"
            yield f"{where}, field '{name}' {change}."
        before, after = old.get("properties", {}), new.get("properties", {})
        for name, schema in before.items():
            here = f"{where}, field '{name}'"
            if name in after:
                yield from self.fits(schema, after[name], here, sent=sent)
            elif not sent or _others(new) is None:
                yield f"{here} is {'refused' if sent else 'gone'}."
        yield from self._other_fields(old, new, where, sent=sent)

    def _other_fields(self, old: Json, new: Json, where: str, *, sent: bool) -> Iterator[str]:
        """Judge the fields that one of the schemas, or both, do not name."""
        inner, outer = (old, new) if sent else (new, old)
        if "object" not in (inner.get("type"), outer.get("type")):
            return
        given, allowed = _others(inner), _others(outer)
        if allowed is None:
            if given is not None and inner.get("type") == "object":
                yield f"{where} takes no other fields."
            return
        named, known = inner.get("properties", {}), outer.get("properties", {})
        fields = {name: (schema, allowed) for name, schema in named.items() if name not in known}
        if given is not None:
            fields["*"] = (given, allowed)
            if sent:
                fields |= {name: (given, known[name]) for name in known.keys() - named.keys()}
        for name, (narrow, wide) in fields.items():
            was, now = (narrow, wide) if sent else (wide, narrow)
            yield from self.fits(was, now, f"{where}, field '{name}'", sent=sent)


def _security_schemes(document: Json) -> Json:
    schemes = document["components"].get("securitySchemes", {})
    return {
        name: {key: value for key, value in scheme.items() if key not in _OF_TOKENS}
        for name, scheme in schemes.items()
    }


def _written(parameter: Json) -> tuple[str, bool, bool]:
    """How a parameter with several values is written, by OpenAPI's defaults."""
    style = parameter.get("style", "form" if parameter["in"] in ("query", "cookie") else "simple")
    explode = parameter.get("explode", style == "form")
    return style, explode, parameter.get("allowReserved", False)


def _others(schema: Json) -> Json | None:
    """What fields may hold that a schema of objects does not name; None if there may be none."""
    others = schema.get("additionalProperties", True)
    if others is False:
        return None
    return {} if others is True else dict(others)


def _unknown(where: str, name: str) -> str:
    return f"{where} uses '{name}': teach contract_docs/breaking.py to judge it."


def _resolve(document: Json, content: Json) -> Json:
    found: Any = content
    while "$ref" in found:
        names = found["$ref"].removeprefix("#/").split("/")
        found = document
        for name in names:
            found = found[name]
    resolved: Json = found
    return resolved


def _values(inner: Json, outer: Json, where: str) -> Iterator[str]:
    """Whether each of the values that `inner` lists is one of `outer`."""
    allowed = _listed(outer)
    if allowed is not None:
        given = _listed(inner)
        if given is None or any(each not in allowed for each in given):
            yield f"{where} takes or has other values than before."


def _listed(schema: Json) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values: list[Any] | None = schema.get("enum")
    return values


def _wider(kind: str) -> tuple[str, ...]:
    """Types whose every value is also of type `kind`."""
    return ("integer",) if kind == "number" else ()


def _shown(schema: Json) -> str:
    return str(schema.get("type", "of any type"))
