"""The OpenAPI document of the HTTP API."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from fanfold import answers, contract
from fanfold.contract import Route
from fanfold.errors import FanfoldError, TryLater
from tools.contract_docs.intake import schema_of
from tools.contract_docs.operations import OPERATIONS, PATH, QUERY
from tools.contract_docs.schemas import components

ROOT = Path(__file__).parents[2]

Json = dict[str, Any]

# Errors that API Gateway may also answer by itself, with a body that an HTTP API cannot change.
GATEWAYS_OWN = {
    401: "Unauthorized",
    413: "Request Entity Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
CACHE_CONTROL: Json = {
    "description": "An answer belongs to one user, and the next one may differ.",
    "required": True,
    "schema": {"type": "string", "const": contract.CACHE_CONTROL},
}
RETRY_AFTER: Json = {
    "description": "Seconds to wait. API Gateway's own answers have none; wait a second.",
    "schema": {"type": "integer", "minimum": 0},
}


def document() -> Json:
    """The document of today's contract."""
    paths: Json = {}
    for route in contract.ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    kinds = [kind for each in OPERATIONS.values() for kind in (each.answer, each.also) if kind]
    requests = [each.request for each in OPERATIONS.values() if each.request]
    schemas = {
        **components(*kinds, answers.Problem, answers.GatewayMessage),
        **{model.__name__: schema_of(model) for model in requests},
    }
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Fanfold",
            "version": version(),
            "summary": "A follow timeline: post once, and every follower finds it.",
            "description": (
                "The contract only ever grows: clients ignore fields, states and problems that "
                "they do not know."
            ),
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [
            {
                "url": "{ApiUrl}",
                "description": "The stack's output.",
                "variables": {
                    "ApiUrl": {"default": "https://API-ID.execute-api.REGION.amazonaws.com"}
                },
            }
        ],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "bearerFormat": "JWT",
                    "description": "An access token of the stack's issuer; it names the user.",
                }
            },
            "schemas": dict(sorted(schemas.items())),
            "responses": {
                _name(errors): _problem(status, errors)
                for route in contract.ROUTES
                for status, errors in _errors(route).items()
            },
        },
    }


def version() -> str:
    """The version of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def _operation(route: Route) -> Json:
    operation = OPERATIONS[route]
    parameters = [
        *(_parameter(name, "path", PATH[name]) for name in re.findall(r"{(\w+)}", route.path)),
        *(_parameter(name, "query", QUERY[name]) for name in route.query),
        *operation.headers,
    ]
    found: Json = {"operationId": operation.id, "summary": operation.summary}
    if operation.description:
        found["description"] = operation.description
    if parameters:
        found["parameters"] = parameters
    if operation.request:
        found["requestBody"] = {
            "required": True,
            "content": {
                "application/json": {
                    "schema": _reference(operation.request.__name__),
                    "example": operation.request_example,
                }
            },
        }
    found["responses"] = {
        str(route.status): _answered(operation.answer, operation.example),
        **(
            {str(route.also): _answered(operation.also, operation.also_example)}
            if route.also
            else {}
        ),
        **{
            str(status): {"$ref": f"#/components/responses/{_name(errors)}"}
            for status, errors in _errors(route).items()
        },
    }
    return found


def _parameter(name: str, place: str, content: Json) -> Json:
    required = {"required": True} if place == "path" else {}
    return {"name": name, "in": place, **required, **content}


def _answered(kind: Any, example: Json | None) -> Json:
    found: Json = {"description": "Done.", "headers": {"Cache-Control": CACHE_CONTROL}}
    if kind:
        found["description"] = " ".join((kind.__doc__ or "Done.").split())
        found["content"] = {
            "application/json": {"schema": _reference(kind.__name__), "example": example}
        }
    return found


def _errors(route: Route) -> dict[int, list[type[FanfoldError]]]:
    """The errors of a route by status."""
    found: dict[int, list[type[FanfoldError]]] = {}
    for error in (*contract.ANY_ROUTE, *route.refusals):
        found.setdefault(error.status, []).append(error)
    return dict(sorted(found.items()))


def _name(errors: list[type[FanfoldError]]) -> str:
    return "-or-".join(each.slug for each in errors)


def _problem(status: int, errors: list[type[FanfoldError]]) -> Json:
    first = errors[0]
    found: Json = {
        "description": "; ".join(f"`{each.slug}`: {each.title}" for each in errors),
        "x-problems": [each.slug for each in errors],
        "content": {
            "application/problem+json": {
                "schema": _reference("Problem"),
                "example": {
                    "type": problem_type(first),
                    "title": first.title,
                    "status": status,
                    "detail": "A sentence that says what to do.",
                },
            }
        },
    }
    if status in GATEWAYS_OWN:
        found["content"]["application/json"] = {
            "schema": _reference("GatewayMessage"),
            "example": {"message": GATEWAYS_OWN[status]},
        }
    if any(issubclass(each, TryLater) for each in errors):
        found["headers"] = {"Retry-After": RETRY_AFTER}
    return found


def problem_type(error: type[FanfoldError]) -> str:
    """The type of a problem document."""
    return f"{contract.PROBLEMS_PAGE}#{error.slug}"


def _reference(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
