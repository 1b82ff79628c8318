"""The rivals' clients, as their own documentation has them made: nothing slowed, nothing tuned.

Endpoint and certificate come from the environment, as for the product.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
from boto3.dynamodb.types import TypeDeserializer

from bench import stub_data
from fanfold.aws.items import MAX_PUTS


def plain(items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items as Python values, with whole numbers as `int`, as a program has them at hand."""
    values = TypeDeserializer()
    found = [{name: values.deserialize(value) for name, value in item.items()} for item in items]
    return [{**item, "expires_at": int(item["expires_at"])} for item in found]


def batch_writer(items: Sequence[dict[str, Any]]) -> Callable[[], None]:
    """Write the items by boto3's `Table.batch_writer`, as the tutorials show."""
    table = boto3.resource("dynamodb").Table(stub_data.SETTINGS.timelines_table)
    values = plain(items)

    def write() -> None:
        with table.batch_writer() as batch:
            for item in values:
                batch.put_item(Item=item)

    return write


def threads(items: Sequence[dict[str, Any]], count: int) -> Callable[[], None]:
    """Write the items by a boto3 client, a batch of 25 a call, on so many threads."""
    client = boto3.client("dynamodb")
    pool = ThreadPoolExecutor(count)

    def put(chunk: Sequence[dict[str, Any]]) -> None:
        requests: Any = [{"PutRequest": {"Item": item}} for item in chunk]
        client.batch_write_item(RequestItems={stub_data.SETTINGS.timelines_table: requests})

    def write() -> None:
        list(pool.map(put, [items[n : n + MAX_PUTS] for n in range(0, len(items), MAX_PUTS)]))

    return write
