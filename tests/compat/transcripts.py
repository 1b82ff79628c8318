"""What an engine answered to a program, call by call, in a form that can be compared."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from botocore.exceptions import ClientError

from fanfold.aws.json_protocol import Refused
from proof.model.dynamodb.values import number_text
from tests.compat.calls import Call

Answer = dict[str, Any]
# Engines need not agree on these.
UNCOMPARED = {"ResponseMetadata", "ConsumedCapacity", "ItemCollectionMetrics"}
# Operations whose items have no order.
UNORDERED = {"scan", "batch_get_item"}


@dataclass
class Recorder:
    """A client that records calls, their answers, and the product's functions that made them."""

    client: Any
    calls: list[Call] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    callers: set[str] = field(default_factory=set)

    @property
    def exceptions(self) -> Any:
        return self.client.exceptions

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def call(**request: Any) -> Any:
            frame = sys._getframe(1)
            while frame is not None:
                module = str(frame.f_globals.get("__name__"))
                if module.startswith("fanfold."):
                    self.callers.add(f"{module}.{frame.f_code.co_qualname}")
                frame = frame.f_back  # type: ignore[assignment]
            self.calls.append((operation, request))
            try:
                answer = getattr(self.client, operation)(**request)
            except (ClientError, Refused) as error:
                self.answers.append(comparable_error(error))
                raise
            except Exception as error:
                self.answers.append({"crash": type(error).__name__})
                raise
            self.answers.append(comparable(operation, answer))
            return answer

        return call

    def make(self, calls: Iterable[Call]) -> None:
        """Make the calls, even after errors."""
        for operation, request in calls:
            try:
                getattr(self, operation)(**request)
            except Exception:  # noqa: BLE001 - recorded; an engine may crash as well
                continue


def comparable(operation: str, answer: Answer) -> Answer:
    """An answer without what engines need not agree on, with unordered items sorted."""
    kept = {name: _plain(value) for name, value in answer.items() if name not in UNCOMPARED}
    for name in ("UnprocessedItems", "UnprocessedKeys", "Attributes"):
        if not kept.get(name, True):
            del kept[name]
    if operation in UNORDERED:
        kept.pop("LastEvaluatedKey", None)
        if "Items" in kept:
            kept["Items"].sort(key=repr)
        for items in kept.get("Responses", {}).values():
            items.sort(key=repr)
    return kept


def comparable_error(error: ClientError | Refused) -> Answer:
    """An error without its wording."""
    response: Any = error.response
    kept: Answer = {"error": response["Error"]["Code"]}
    if "Item" in response:
        kept["Item"] = _plain(response["Item"])
    if reasons := response.get("CancellationReasons"):
        kept["reasons"] = [
            {name: _plain(value) for name, value in reason.items() if name in ("Code", "Item")}
            for reason in reasons
        ]
    return kept


def _number(text: str) -> str:
    try:
        return number_text(Decimal(text))
    except InvalidOperation:
        return text


def _plain(value: Any) -> Any:
    """Numbers by value, sets in order, attributes by name."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((kind, content),) = value.items()
        if kind == "N" and isinstance(content, str):
            return {"N": _number(content)}
        if kind == "NS" and isinstance(content, list):
            return {"NS": sorted(map(_number, content))}
        if kind in ("SS", "BS") and isinstance(content, list):
            return {kind: sorted(content)}
    return {name: _plain(value[name]) for name in sorted(value)}
