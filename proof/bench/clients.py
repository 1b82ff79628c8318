"""The rivals' clients, used as their own documentation shows: nothing slowed, nothing tuned.

Endpoint and certificate come from the environment, like the product's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import boto3
from boto3.dynamodb.types import TypeDeserializer

from proof.bench import stub_data


def plain(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items as a program has them: Python values, with whole numbers as `int`."""
    values = TypeDeserializer()
    found = [{name: values.deserialize(value) for name, value in item.items()} for item in items]
    return [{**item, "expires_at": int(item["expires_at"])} for item in found]


def batch_writer(items: Sequence[dict[str, Any]]) -> Callable[[], None]:
    """Write the items by boto3's `Table.batch_writer`, like the tutorials."""
    table = boto3.resource("dynamodb").Table(stub_data.SETTINGS.timelines_table)
    values = plain(items)

    def write() -> None:
        with table.batch_writer() as batch:
            for item in values:
                batch.put_item(Item=item)

    return write
