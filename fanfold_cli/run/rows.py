"""What the tables of a stack hold, read item by item."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from fanfold.ids import split_sort_key
from fanfold_cli.progress import progress_bar
from fanfold_cli.stack import Deployment

# DynamoDB's limit of BatchGetItem.
MAX_KEYS = 100


class Row(NamedTuple):
    """A row of the timelines table."""

    user: str
    sort_key: str
    publisher: str

    @property
    def ref_id(self) -> str:
        return split_sort_key(self.sort_key)[1]


def rows(deployment: Deployment, *, total: int | None = None) -> Iterator[Row]:
    """Every row of the timelines, with a bar that expects so many; None is unknown."""
    table = deployment.settings().timelines_table
    with progress_bar("Checking", total=total, unit="rows") as bar:
        for page in _scan(deployment, table, "user_id, sort_key, publisher_id"):
            bar.advance(len(page))
            for item in page:
                yield Row(*(item[name]["S"] for name in ("user_id", "sort_key", "publisher_id")))


def followers(deployment: Deployment, publishers: Collection[str]) -> dict[str, frozenset[str]]:
    """The followers of these publishers by the edges, which deliveries read."""
    found: dict[str, set[str]] = defaultdict(set)
    for page in _scan(deployment, deployment.settings().followers_table, "shard_id, edge"):
        for item in page:
            publisher = item["shard_id"]["S"].rpartition("#")[0]
            if publisher in publishers:
                found[publisher].add(item["edge"]["S"].partition("#")[2])
    return {publisher: frozenset(found[publisher]) for publisher in publishers}


def present(deployment: Deployment, keys: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
    """Which of these (user, sort key) are in the timelines now."""
    client, table = deployment.client("dynamodb"), deployment.settings().timelines_table
    there: set[tuple[str, str]] = set()
    for start in range(0, len(keys), MAX_KEYS):
        wanted = [
            {"user_id": {"S": user}, "sort_key": {"S": key}}
            for user, key in keys[start : start + MAX_KEYS]
        ]
        # What stays unprocessed is asked for again by the next call.
        answer = client.batch_get_item(
            RequestItems={
                table: {
                    "Keys": wanted,
                    "ConsistentRead": True,
                    "ProjectionExpression": "user_id, sort_key",
                }
            }
        )
        for item in answer["Responses"].get(table, []):
            there.add((item["user_id"]["S"], item["sort_key"]["S"]))
    return there


def _scan(deployment: Deployment, table: str, projection: str) -> Iterator[list[Any]]:
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
