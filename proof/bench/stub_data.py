"""What the stub endpoint answers and the benches expect: tables, followers, a ledger, timelines.

Ids are as long as those of Cognito and end with a number: for a publisher and a post, that of its
followers; for a follower, its index.
"""

from __future__ import annotations

import bisect
import json
import os
import time
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from fanfold import names, times
from fanfold.aws.items import MAX_PUTS, number, text
from fanfold.fanout.row import COMPLETE, DELIVERING
from fanfold.follows import ring
from fanfold.ids import sort_key
from fanfold.settings import Settings
from fanfold.timeline.entries import Entries, Entry

REGION = "eu-central-1"
QUEUES = f"https://sqs.{REGION}.amazonaws.com/123456789012"
# Entries a second, never reached: a worker's pace is no part of what an entry costs.
UNLIMITED = 1_000_000_000

SETTINGS = Settings.from_env(
    {
        **{
            f"{table.name.upper()}_TABLE": f"Fanfold-prod-{table.name}A1B2C3D4-1E5F6G7H8J9K"
            for table in names.TABLES
        },
        **{each.url_setting.upper(): f"{QUEUES}/{each.name}" for each in names.QUEUES},
        **{each.dlq_url_setting.upper(): f"{QUEUES}/{each.name}Dlq" for each in names.QUEUES},
        "EXPRESS_WORKER_RATE": str(UNLIMITED),
        "BULK_WORKER_RATE": str(UNLIMITED),
        "PUBLISH_WORKER_RATE": str(UNLIMITED),
    }
)

DIGITS = 12
# The stub's process inherits the environment, and so has the same time.
NOW_MS = int(os.environ.setdefault("BENCH_NOW_MS", str(time.time_ns() // 1_000_000)))
_EXPIRES_AT = NOW_MS // 1000 + SETTINGS.retention_days * 24 * 60 * 60

READER = f"b0b00000-0000-4000-8000-{0:0{DIGITS}}"
# More than any page: every page is full and has a next one.
TIMELINE_ENTRIES = 1_000


def publisher(followers: int) -> str:
    return f"ada00000-0000-4000-8000-{followers:0{DIGITS}}"


def post(followers: int) -> str:
    """The id of that publisher's post, and of its fan-out."""
    return f"90570000000000000000{followers:0{DIGITS}}"


def follower(index: int) -> str:
    return f"f0110000-0000-4000-8000-{index:0{DIGITS}}"


@cache
def edges(followers: int) -> tuple[str, ...]:
    """The edges of the publisher with this many followers, in ring order."""
    return tuple(sorted(ring.edge(follower(index)) for index in range(followers)))


def entry(followers: int) -> Entry:
    published_at = times.to_text(NOW_MS)
    return Entry(sort_key(published_at, post(followers)), publisher(followers), _EXPIRES_AT)


def items(entry: Entry, users: Sequence[str]) -> list[dict[str, Any]]:
    """The items that the product writes for these users, in DynamoDB's own form."""
    written: list[dict[str, Any]] = []

    class Recorder:
        def batch_write_item(self, RequestItems: Any) -> dict[str, Any]:  # noqa: N803 - boto3's
            written.extend(put["PutRequest"]["Item"] for put in RequestItems[table])
            return {}

    table = SETTINGS.timelines_table
    timelines = Entries(cast("Any", Recorder()), table)
    for start in range(0, len(users), MAX_PUTS):
        timelines.push(entry, users[start : start + MAX_PUTS])
    return written


def answer(operation: str, request: dict[str, Any]) -> bytes:
    """DynamoDB's answer to a call; raises `KeyError` for a call that no bench makes."""
    table = request.get("TableName")
    key = request.get("Key", {})
    if operation == "query" and table == SETTINGS.timelines_table:
        return _timeline(request["Limit"])
    if operation == "query" and table == SETTINGS.followers_table:
        values = request["ExpressionAttributeValues"]
        after = request.get("ExclusiveStartKey", {}).get("edge", values[":lo"])["S"]
        return _followers(values[":shard"]["S"], after, values[":hi"]["S"], request["Limit"])
    if operation == "batchgetitem":
        return _batch(request["RequestItems"])
    if operation == "getitem" and table == SETTINGS.posts_table:
        return _json({"Item": _delivered(key["ref_id"]["S"])})
    if operation == "getitem" and table == SETTINGS.fanouts_table:
        return _json({"Item": _fanout(_number(key["fanout_id"]["S"]), finished=False)})
    if operation == "getitem" and table == SETTINGS.readers_table:
        return _json({"Item": {**key, "follows": {"N": "100"}}})
    if operation == "getitem" and table == SETTINGS.publishers_table:
        return _json({})  # the publisher never grew: all its followers are on one shard
    if operation == "updateitem" and table == SETTINGS.fanouts_table:
        return _json({"Attributes": _fanout(_number(key["fanout_id"]["S"]), finished=True)})
    return _json(_OTHERS[operation, table])


def _batch(wanted: dict[str, Any]) -> bytes:
    """The rows of posts, or of fan-outs, or what a worker reads of one fan-out."""
    fanouts, posts = SETTINGS.fanouts_table, SETTINGS.posts_table
    found: dict[str, list[Any]] = {table: [] for table in wanted}  # no publisher ever grew
    if posts in wanted:
        each = _delivered if fanouts in wanted else _post
        found[posts] = [each(key["ref_id"]["S"]) for key in wanted[posts]["Keys"]]
    if fanouts in wanted:
        numbers = [_number(key["fanout_id"]["S"]) for key in wanted[fanouts]["Keys"]]
        found[fanouts] = [_fanout(number, finished=False) for number in numbers]
    return _json({"Responses": found, "UnprocessedKeys": {}})


_SENT = {"Id": "0", "MessageId": "5fea7756-0ea4-451a-a703-a558b933e274", "MD5OfMessageBody": ""}
# What is the same whatever is asked for: by operation and table, if it has one.
_OTHERS: dict[tuple[str, str | None], Any] = {
    ("putitem", SETTINGS.posts_table): {},
    ("putitem", SETTINGS.fanouts_table): {},
    ("updateitem", SETTINGS.publishers_table): {},  # the post is counted
    ("sendmessagebatch", None): {"Successful": [_SENT], "Failed": []},
}


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def _number(id_: str) -> int:
    return int(id_[-DIGITS:])


@cache
def _followers(shard_id: str, after: str, hi: str, limit: int) -> bytes:
    """A page of edges; as in DynamoDB, a page as long as its limit has a next one."""
    every = edges(_number(shard_id.partition("#")[0]))
    begin = bisect.bisect_right(every, after)  # a bare position is before its edges
    page = every[begin : bisect.bisect_left(every, hi)][:limit]
    found: dict[str, Any] = {
        "Items": [{"edge": text(edge)} for edge in page],
        "Count": len(page),
        "ScannedCount": len(page),
    }
    if len(page) == limit:
        found["LastEvaluatedKey"] = {"shard_id": text(shard_id), "edge": text(page[-1])}
    return _json(found)


@cache
def _timeline(limit: int) -> bytes:
    """The newest entries of the reader, a second apart, whatever range is asked for."""
    count = min(limit, TIMELINE_ENTRIES)
    found = [
        {
            "sort_key": text(sort_key(times.to_text(NOW_MS - 1000 * each), post(each))),
            "publisher_id": text(publisher(each)),
        }
        for each in range(count)
    ]
    last = {"user_id": text(READER), "sort_key": found[-1]["sort_key"]}
    return _json({"Items": found, "Count": count, "ScannedCount": count, "LastEvaluatedKey": last})


def _post(ref_id: str) -> dict[str, Any]:
    each = _number(ref_id)
    published_at = times.to_text(NOW_MS - 1000 * each)
    body = {
        "title": f"What I saw on day {each}",
        "text": "A walk along the river, and what the herons do when nobody looks.",
        "url": f"https://example.com/walks/{each}",
        "tags": ["walks", "rivers", "birds"],
    }
    return {
        "ref_id": text(ref_id),
        "publisher_id": text(publisher(each)),
        "sort_key": text(sort_key(published_at, ref_id)),
        "accepted_at": text(published_at),
        "expires_at": number(_EXPIRES_AT),
        "body": text(json.dumps(body)),
    }


def _delivered(ref_id: str) -> dict[str, Any]:
    """A post as a worker reads it."""
    fanned = entry(_number(ref_id))
    accepted_at = text(times.to_text(NOW_MS))
    key = {"sort_key": text(fanned.sort_key), "accepted_at": accepted_at}
    return {**_post(ref_id), **key, "body": text("")}


def _fanout(followers: int, *, finished: bool) -> dict[str, Any]:
    """The ledger's row of a fan-out of one segment, before and after its delivery."""
    fanned, now = entry(followers), times.to_text(NOW_MS)
    row: dict[str, Any] = {
        "fanout_id": text(post(followers)),
        "publisher_id": text(fanned.publisher_id),
        "sort_key": text(fanned.sort_key),
        "accepted_at": text(now),
        "changed_at": text(now),
        "entries_expire_at": number(_EXPIRES_AT),
        "expires_at": number(_EXPIRES_AT),
    }
    row |= {
        "segments": number(1),
        "followers": number(followers),
        "resume": {"M": {}},
        "rounds": number(0),
    }
    if finished:
        return {
            **row,
            "state": text(COMPLETE),
            "completed_at": text(now),
            "delivered": number(followers),
        }
    return {
        **row,
        "state": text(DELIVERING),
        "open_fanout": text(post(followers)),
        "pending": {"NS": ["0"]},
        "delivered": number(0),
    }
