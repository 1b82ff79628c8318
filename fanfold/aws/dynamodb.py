"""Calls of DynamoDB that several stores make in the same way, through either library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fanfold import clock
from fanfold.aws.items import Item
from fanfold.aws.retries import BATCH, DEADLINE_SECONDS, STEP, is_transient
from fanfold.errors import TryLater

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

T = TypeVar("T")

# Reasons that say that somebody else has changed an item, or is doing so.
_CONTENDED = frozenset({"None", "ConditionalCheckFailed", "TransactionConflict"})


def rows(
    client: DynamoDBClient, wanted: Mapping[str, Any], answer: Any = None
) -> dict[str, list[Item]]:
    """The rows of several tables, by table; `wanted` is what BatchGetItem takes, with 100 keys.

    `answer` is the answer to the first call, if the caller has already made it. DynamoDB leaves
    keys unprocessed when it throttles, or when the answer would exceed 16 MB. Raises `TryLater` if
    they stay unprocessed, which does not mean that they are missing.
    """
    found: dict[str, list[Item]] = {table: [] for table in wanted}
    left = dict(wanted)
    for _ in clock.tries(*BATCH):
        while left:
            answer = answer or client.batch_get_item(RequestItems=left)
            items = answer["Responses"]
            for table in items:
                found[table] += items[table]
            unprocessed = answer.get("UnprocessedKeys", {})
            answer = None
            left = {
                table: {**wanted[table], "Keys": unprocessed[table]["Keys"]}
                for table in unprocessed
            }
            if not any(items.values()):
                break  # throttled; a large answer in parts needs no pause
        if not left:
            return found
    keys = sum(len(each["Keys"]) for each in left.values())
    raise TryLater(f"{keys} rows of {', '.join(left)} could not be read.")


def pages(client: DynamoDBClient, **request: Any) -> Iterator[Any]:
    """The answers to a Scan, page after page, each as large as its `Limit` or 1 MB.

    A page may be empty and not the last one.
    """
    more: Any = {}
    while True:
        page = client.scan(**request, **more)
        yield page
        if not page.get("LastEvaluatedKey"):
            return
        more = {"ExclusiveStartKey": page["LastEvaluatedKey"]}


def update_or_read(
    client: DynamoDBClient, table: str, key: Item, update: dict[str, Any]
) -> Item | None:
    """Update a row; if the condition refuses that, return the row, or an empty one.

    `update` has the expressions. Raises the other errors of `update_item`.
    """
    try:
        client.update_item(
            TableName=table,
            Key=key,
            **update,
            ReturnValuesOnConditionCheckFailure="ALL_OLD",  # saves a read
        )
    except client.exceptions.ConditionalCheckFailedException as refused:
        response: Any = refused.response
        row: Item = response.get("Item", {})
        return row
    return None


def transact(client: DynamoDBClient, actions: Sequence[Any]) -> list[str]:
    """Write all actions or none; returns an empty list, or a reason for each action.

    The reason is "None" for an action that could be written. Raises if a reason is neither a failed
    condition nor a conflict.
    """
    try:
        client.transact_write_items(TransactItems=actions)
    except client.exceptions.TransactionCanceledException as cancelled:
        reasons = [reason.get("Code", "") for reason in cancelled.response["CancellationReasons"]]
        if not _CONTENDED.issuperset(reasons):
            raise
        return reasons
    return []


class Deadline:
    """The deadline of an operation of many short calls. None begins after it; each is retried."""

    def __init__(self, sentence: str) -> None:
        """`sentence` says what was too slow."""
        self._at, self._sentence = clock.monotonic() + DEADLINE_SECONDS, sentence

    def check(self) -> None:
        """Raise `TryLater` if the deadline has passed."""
        if clock.monotonic() >= self._at:
            raise TryLater(self._sentence)

    def retry(self, call: Callable[[], T]) -> T:
        """Repeat an idempotent call after transient errors; raises `TryLater` at the deadline."""
        reason = None
        for _ in clock.tries(*STEP):
            if clock.monotonic() >= self._at:
                break
            try:
                return call()
            except Exception as error:
                if not is_transient(error):
                    raise
                reason = error
        raise TryLater(self._sentence) from reason
