"""What a page of a timeline costs in CPU, hydrated, beside the bare Query by boto3's resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
from boto3.dynamodb.conditions import Key

from bench import doors, stub_data
from bench.child import Context
from bench.endpoint import in_environment
from bench.figures import Bars, Figure, Result, Row
from bench.paired import Contestant, alone, compare
from bench.progress import with_progress
from fanfold.timeline.entries import Entries
from fanfold.timeline.posts import Posts
from fanfold.timeline.read import Hydration, Reading
from functions import _clients as product

LIMIT = 50  # entries a page
PAGES = 200  # a block: 0.25 s of boto3, and far less than the cache holds a post for
ROUNDS, SHORT_ROUNDS = 14, 5
BLOCKS_BESIDE = 5
TARGET = 5.0
# Older than every entry, as the product's bound is.
SINCE = "2020-01-01T00:00:00.000Z"


def run(*, short: bool) -> Result:
    """Compare reading a page with asking for one."""
    with in_environment() as stub:
        fanfold = _pages("Fanfold, hydrated", _reading())
        resource = _pages("boto3 resource, Query alone", _resource())
        found = compare(fanfold, resource, rounds=SHORT_ROUNDS if short else ROUNDS, what="query")
        micros = {fanfold.name: 1e6 * found.ours, resource.name: 1e6 * found.theirs}
        beside = [
            _pages("Fanfold's handler, with its router", _handler()),
            _pages("boto3 client, Query alone", _client()),
        ]
        for each in with_progress("query, beside it", [] if short else beside):
            micros[each.name] = 1e6 * alone(each, blocks=BLOCKS_BESIDE)
    return Result(
        figures=[
            Figure(
                name="query.vs_boto3_resource",
                value=found.ratio,
                target=TARGET,
                unit="x",
                better="higher",
                against=f"CPU of the bare Query of the same {LIMIT} entries by boto3's resource",
            )
        ],
        rows=[Row(name, value, "µs", "of CPU per page") for name, value in micros.items()],
        setting={
            "interval": found.interval,
            "work": f"pages of {LIMIT}, {PAGES} a block, posts cached, over TLS",
            "pinned": stub.pinned,
        },
        chart=Bars(title=f"CPU per page of {LIMIT} entries", unit="µs", bars=micros),
    )


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
        Entries(dynamodb, settings.timelines_table),
        Hydration(Posts(dynamodb, settings.posts_table)),
        settings.retention_days,
    )
    return lambda: len(reading.page(stub_data.READER, limit=LIMIT, before=None)["entries"])


def _handler() -> Callable[[], int]:
    from functions import timeline  # reads the environment as it is imported

    event: Any = doors.timeline(LIMIT)
    context: Any = Context()

    def page() -> int:
        body: str = timeline.handler(event, context)["body"]
        return body.count('"ref_id"')

    return page


def _resource() -> Callable[[], int]:
    table = boto3.resource("dynamodb").Table(stub_data.SETTINGS.timelines_table)

    def page() -> int:
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
