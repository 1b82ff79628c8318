"""Requests and answers of AWS's JSON services, with errors in the form of botocore's."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any

from fanfold.errors import Unanswered


class Lost(Unanswered):
    """The connection failed, or the answer was cut short or garbled."""


class Refused(Exception):
    """The service refused a call; `response` is its answer in the form of botocore's errors.

    There is one subclass for each error code of AWS, at `Client.exceptions`.
    """

    def __init__(self, response: dict[str, Any], operation: str) -> None:
        error = response["Error"]
        super().__init__(f"{operation} was refused: {error['Code']}: {error['Message']}")
        self.response = response


@cache
def refusal(code: str) -> type[Refused]:
    """The error type of an error code of AWS."""
    return type(code, (Refused,), {})


class Exceptions:
    """`exceptions.SomeCode` is the error type of that code, as on a boto3 client."""

    def __getattr__(self, code: str) -> type[Refused]:
        return refusal(code)


def refused(operation: str, status: int, body: bytes, kind: str = "") -> Refused:
    """The error in an answer. If the body is not AWS's JSON, its code is the HTTP status.

    `kind` is the header `x-amzn-errortype`, in which REST services send the code.
    """
    try:
        content = json.loads(body)
        code = content.pop("__type", kind.partition(":")[0]).rpartition("#")[2]
        if not code.isidentifier():  # no code of AWS, and no name for a type
            raise ValueError
    except (ValueError, KeyError, AttributeError, TypeError):
        content, code = {}, str(status)
    message = content.pop("message", content.pop("Message", None))
    response = {
        **content,
        "Error": {"Code": code, "Message": message or ""},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return refusal(code)(response, operation)


# `json.dumps` would make another one at each call.
_encoder = json.JSONEncoder(
    separators=(",", ":"), default=lambda binary: b64encode(binary).decode()
)


def encode(request: Mapping[str, Any]) -> bytes:
    """Write a request, or an answer; binary values become base64 text."""
    return _encoder.encode(request).encode()


def decode(operation: str, body: bytes) -> dict[str, Any]:
    """Read an answer; raises `Lost` if it is not a JSON object, as when it was cut short.

    Binary values in it stay base64 text.
    """
    try:
        content = json.loads(body)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Lost(f"{operation}: the answer is no JSON object.")
    return content
