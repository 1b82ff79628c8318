"""Calls to AWS as values, and the clients that make them: a call waits until it has an answer.

Every value has a number that its content determines, so equal ones are one, in every process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

from proof.model import errors
from proof.simulation.world.retries import is_repeated


def number_of(*parts: object) -> int:
    """64 bits of the content: of a million values, two share one once in 40 million times."""
    return int.from_bytes(blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest())


def text_of(content: Any) -> str:
    return json.dumps(content, sort_keys=True, separators=(",", ":"), default=_spelled)


def content_of(text: str) -> Any:
    """What a text was made of."""
    return json.loads(text, object_hook=_read)


# DynamoDB's binaries, which JSON does not have.
_BYTES = "bytes"


def _spelled(value: bytes) -> dict[str, str]:
    return {_BYTES: value.hex()}


def _read(content: dict[str, Any]) -> Any:
    return bytes.fromhex(content[_BYTES]) if content.keys() == {_BYTES} else content


class AwsCall(NamedTuple):
    """One attempt of a request to a service."""

    number: int
    service: str
    operation: str
    request: dict[str, Any]

    @staticmethod
    def of(service: str, operation: str, request: dict[str, Any]) -> AwsCall:
        number = number_of(service, operation, text_of(request))
        return AwsCall(number, service, operation, request)


class CallAnswer(NamedTuple):
    """What the caller of a call hears: an answer or an error."""

    number: int
    content: dict[str, Any] | Exception

    @staticmethod
    def of(content: dict[str, Any] | Exception) -> CallAnswer:
        if isinstance(content, Exception):
            about = text_of(getattr(content, "response", str(content)))
            return CallAnswer(number_of(type(content).__name__, about), content)
        return CallAnswer(number_of(text_of(content)), content)


class Waits(BaseException):
    """The next call has no answer yet. No `except Exception` of the product catches it."""


@dataclass
class Script:
    """The answers that an invocation gets, one after the other, and what it calls after them."""

    name: str = ""  # of the invocation
    answers: Sequence[CallAnswer] = ()
    calls: Sequence[int] = ()  # the numbers of the calls that these answers are to
    next: AwsCall | None = None
    given: int = 0

    def call(self, service: str, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        """The next answer; raises `Waits` behind the last one, and whenever called after that."""
        if self.next is not None:
            raise Waits
        call = AwsCall.of(service, operation, request)
        if self.given == len(self.answers):
            self.next = call
            raise Waits
        if self.calls[self.given] != call.number:
            raise AssertionError(f"With the same answers, another call came: {call}")
        content = self.answers[self.given].content
        self.given += 1
        if isinstance(content, Exception):
            raise content.with_traceback(None)
        copy: dict[str, Any] = content_of(text_of(content))
        return copy


@dataclass
class CurrentScript:
    """Where the invocation that runs now finds its script."""

    script: Script = field(default_factory=Script)


stage = CurrentScript()


@dataclass(frozen=True)
class Client:
    """In the place of boto3's: it tries as often, and each attempt is a call of its own."""

    service: str
    attempts: int

    @property
    def exceptions(self) -> Any:
        return errors.exceptions(self.service)

    def __getattr__(self, operation: str) -> Any:
        return partial(self._try, operation)

    def _try(self, operation: str, **request: Any) -> Any:
        if operation == "transact_write_items":  # like botocore: one token for all attempts
            request["ClientRequestToken"] = f"{stage.script.name} {stage.script.given}"
        for attempt in range(1, self.attempts + 1):
            try:
                return stage.script.call(self.service, operation, request)
            except Exception as error:
                if attempt == self.attempts or not is_repeated(error):
                    raise
        raise AssertionError("There is at least one attempt.")
