"""Scans of a table or an index, through either library."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


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
