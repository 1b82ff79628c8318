"""Rules for DynamoDB's expressions that moto lacks, checked at every call of a test."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from botocore.exceptions import ClientError
from moto.dynamodb.parsing.reserved_keywords import ReservedKeywords

OPERATORS = {"SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "BETWEEN", "IN"}
# A name: neither a function, which has a bracket behind it, nor a placeholder or a part of one.
WORD = re.compile(r"(?<![:#\w])([A-Za-z_]\w*)(?!\w|\s*\()")


def check_expressions(params: Mapping[str, Any], **_event: Any) -> None:
    """Refuse reserved words as names, and undefined or unused placeholders, as DynamoDB does.

    Registered for botocore's event `provide-client-params.dynamodb`, before the call is made.
    """
    for request in _requests(params):
        expressions = [
            value for name, value in request.items() if name.endswith("Expression") and value
        ]
        for expression in expressions:
            for word in WORD.findall(expression):
                if word.upper() not in OPERATORS and (
                    word.upper() in ReservedKeywords.get_reserved_keywords()
                ):
                    raise _invalid(f"reserved keyword: {word}, in: {expression}")
        for kind, sign in (("Names", "#"), ("Values", ":")):
            used = set(re.findall(rf"{sign}\w+", " ".join(expressions)))
            given = set(request.get(f"ExpressionAttribute{kind}", {}))
            if used != given:
                raise _invalid(f"unused or undefined: {used ^ given}, in: {expressions}")


def _requests(params: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield params
    for action in params.get("TransactItems", []):
        yield from action.values()


def _invalid(reason: str) -> ClientError:
    error = {"Error": {"Code": "ValidationException", "Message": reason}}
    return ClientError(error, "an expression")  # type: ignore[arg-type]
