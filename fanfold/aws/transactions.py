"""Transactions: all of some writes, or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

# Reasons that say that somebody else has changed an item, or is doing so.
_CONTENDED = frozenset({"None", "ConditionalCheckFailed", "TransactionConflict"})


def transact(client: DynamoDBClient, actions: Sequence[Any]) -> list[str]:
    """Write all of the actions or nothing; returns why not, by action: `None` where it would do.

    Nothing is returned if all was written. Raises if anything else than a condition or a conflict
    was in the way.
    """
    try:
        client.transact_write_items(TransactItems=actions)
    except client.exceptions.TransactionCanceledException as cancelled:
        reasons = [reason.get("Code", "") for reason in cancelled.response["CancellationReasons"]]
        if not _CONTENDED.issuperset(reasons):
            raise
        return reasons
    return []
