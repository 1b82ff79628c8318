"""Conditional updates whose refusal says what stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fanfold.aws.items import Item

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


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
