"""The rows of a stack's timelines, read item by item."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from fanfold.ids import split_sort_key
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment


class Row(NamedTuple):
    """A row of the timelines table."""

    user: str
    sort_key: str
    publisher: str

    @property
    def ref_id(self) -> str:
        return split_sort_key(self.sort_key)[1]


def rows(deployment: Deployment, *, total: int | None = None) -> Iterator[Row]:
    """Every row of the timelines, with a progress bar; a `total` of None is unknown."""
    table = deployment.settings().timelines_table
    if deployment.is_local:  # it has rows of earlier runs too, and counts them as it writes
        total = deployment.client("dynamodb").describe_table(TableName=table)["Table"]["ItemCount"]
    with progress_bar("Checking", total=total, unit="rows") as bar:
        for page in scan(deployment, table, "user_id, sort_key, publisher_id"):
            bar.advance(len(page))
            for item in page:
                yield Row(*(item[name]["S"] for name in ("user_id", "sort_key", "publisher_id")))


def scan(deployment: Deployment, table: str, projection: str) -> Iterator[list[Any]]:
    """The pages of a table, with these attributes (`a, b`) of each item."""
    names = {f"#{number}": name for number, name in enumerate(projection.split(", "))}
    pages = (
        deployment.client("dynamodb")
        .get_paginator("scan")
        .paginate(
            TableName=table,
            ProjectionExpression=", ".join(names),
            ExpressionAttributeNames=names,
            ConsistentRead=True,
        )
    )
    for page in pages:
        yield page["Items"]
