"""What a hydrated page of a timeline costs in CPU, compared with its bare reads by boto3."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import boto3
from boto3.dynamodb.conditions import Key

from fanfold.stores import Stores
from fanfold.timeline.paging import Asked
from fanfold.timeline.post_cache import Hydration
from fanfold.timeline.visibility import Reading, Visibility
from functions import _clients as product
from proof.bench import doors, stub_data
from proof.bench.child import Context
from proof.bench.endpoint import in_environment
from proof.bench.figures import BenchResult
from proof.bench.paired import Contestant, Rivalry

LIMIT = 50  # entries a page
PAGES = 200  # a block: 0.25 s of boto3, and far less than the cache holds a post for
ROUNDS, SHORT_ROUNDS = 14, 5
BLOCKS_BESIDE = 5
TARGET = 5.0
# Older than every entry, like the product's bound.
SINCE = "2020-01-01T00:00:00.000Z"


def run(*, short: bool) -> BenchResult:
    rivalry = Rivalry(
        figure="query.vs_boto3_resource",
        target=TARGET,
        against=f"CPU of the bare reads of {LIMIT} entries and their reader's row by boto3",
        unit="page",
        title=f"CPU per page of {LIMIT} entries",
        work=f"pages of {LIMIT}, {PAGES} a block, posts cached, over TLS",
        rounds=SHORT_ROUNDS if short else ROUNDS,
        blocks_beside=BLOCKS_BESIDE,
    )
    with in_environment() as stub:
        fanfold = _pages("Fanfold, hydrated", _reading())
        resource = _pages("boto3 resource, reads alone", _resource())
        others = {
            "Fanfold's handler, with its router": _handler,
            "boto3 client, reads alone": _client,
        }
        # Made after the comparison, which their imports must not disturb.
        beside = (_pages(name, make()) for name, make in others.items() if not short)
        return rivalry.result(fanfold, resource, beside, stub.pinned)


def _pages(name: str, page: Callable[[], int]) -> Contestant:
    def block() -> None:
        for _ in range(PAGES):
            if page() != LIMIT:
                raise RuntimeError(f"{name}: not a full page.")

    return Contestant(name, block, units=PAGES, ready=page)


def _reading() -> Callable[[], int]:
    settings = stub_data.SETTINGS
    dynamodb = product.dynamodb(settings)
    reading = Reading(
        Hydration(Stores(dynamodb, settings).posts),
        Visibility(
            Stores(dynamodb, settings).entries,
            Stores(dynamodb, settings).readers,
            product.together(settings),
            _nobody,
            settings.retention_days,
        ),
    )
    return lambda: len(reading.page(stub_data.READER, Asked(LIMIT))["entries"])


def _nobody(_user_id: str, _publisher_ids: Collection[str]) -> tuple[set[str], set[str]]:
    raise RuntimeError("The reader of this bench has no more unfollows than marks tell.")


def _handler() -> Callable[[], int]:
    from functions import timeline  # reads the environment as it is imported

    event: Any = doors.timeline(LIMIT)
    context: Any = Context()

    def page() -> int:
        body: str = timeline.handler(event, context)["body"]
        return body.count('"ref_id"')

    return page


def _resource() -> Callable[[], int]:
    resource = boto3.resource("dynamodb")
    table = resource.Table(stub_data.SETTINGS.timelines_table)
    readers = resource.Table(stub_data.SETTINGS.readers_table)

    def page() -> int:
        readers.get_item(Key={"user_id": stub_data.READER}, ConsistentRead=True)
        answer = table.query(
            KeyConditionExpression=Key("user_id").eq(stub_data.READER) & Key("sort_key").gt(SINCE),
            ProjectionExpression="sort_key, publisher_id",
            ScanIndexForward=False,
            Limit=LIMIT,
        )
        return len(answer["Items"])

    return page


def _client() -> Callable[[], int]:
    client = boto3.client("dynamodb")

    def page() -> int:
        client.get_item(
            TableName=stub_data.SETTINGS.readers_table,
            Key={"user_id": {"S": stub_data.READER}},
            ConsistentRead=True,
        )
        answer = client.query(
            TableName=stub_data.SETTINGS.timelines_table,
            KeyConditionExpression="user_id = :user AND sort_key > :since",
            ExpressionAttributeValues={":user": {"S": stub_data.READER}, ":since": {"S": SINCE}},
            ProjectionExpression="sort_key, publisher_id",
            ScanIndexForward=False,
            Limit=LIMIT,
        )
        return len(answer["Items"])

    return page
