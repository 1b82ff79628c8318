"""Rows of several tables in one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fanfold import clock
from fanfold.aws.items import Item
from fanfold.errors import TryLater

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# BatchGetItem leaves keys unprocessed when it is throttled, or when the answer would exceed 16 MB.
# They are asked for again with jitter, for 3 s at most: a message that fails comes again after
# minutes, so giving up early would help nobody.
ATTEMPTS = 6
BACKOFF_SECONDS = 0.1


def rows(
    client: DynamoDBClient, wanted: Mapping[str, Any], answer: Any = None
) -> dict[str, list[Item]]:
    """The rows found, by table; `wanted` is what BatchGetItem takes, with 100 keys at most.

    `answer` is that to its first call, if the caller has made it beside others. Raises `TryLater`
    if keys stay unprocessed: that does not mean that they are missing.
    """
    found: dict[str, list[Item]] = {table: [] for table in wanted}
    left = dict(wanted)
    for _ in clock.tries(ATTEMPTS, BACKOFF_SECONDS):
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
