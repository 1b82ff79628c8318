"""The stub endpoint: it answers like DynamoDB, and counts what was put."""

import json
from collections import Counter
from typing import Any

import boto3
import pytest

from fanfold import clock
from fanfold.fanout.row import COMPLETE, DELIVERING
from fanfold.follows import ring
from fanfold.follows.ring_reader import Read
from fanfold.ids import split_sort_key
from fanfold.stores import Stores
from fanfold.timeline.picking import Range
from proof.bench import clients, doors, stub_data
from proof.bench.endpoint import TOKEN_CHARS, stub
from proof.bench.fresh import answer
from tests.stores import page_of

FOLLOWERS = 60


class DirectClient:
    """A client of the stub's answers, without a connection."""

    def __getattr__(self, method: str) -> Any:
        operation = method.replace("_", "")
        return lambda **request: json.loads(stub_data.answer(operation, request))


client: Any = DirectClient()


@pytest.mark.parametrize("limit", [7, 60, 100])
def test_pages_of_followers_hold_each_follower_once_in_ring_order(limit: int) -> None:
    store = Stores(client, stub_data.SETTINGS).edges
    found: list[str] = []
    for half in (ring.segment_range(segment, 2) for segment in (0, 1)):
        after, more = half.lo, True
        while more:
            page = store.page(stub_data.publisher(FOLLOWERS), Read(0, 0, after, half.hi), limit)
            found += page.edges
            after, more = (page.edges or [after])[-1], page.more
    assert found == sorted(ring.edge(stub_data.follower(n)) for n in range(FOLLOWERS))


def test_the_ledger_completes_with_its_only_segment() -> None:
    fanouts = Stores(client, stub_data.SETTINGS).ledger
    before = fanouts.get(stub_data.post(FOLLOWERS))
    assert before is not None
    assert (before.state, before.pending, before.segments) == (DELIVERING, frozenset({0}), 1)
    assert before.sort_key == stub_data.entry(FOLLOWERS).sort_key
    after = fanouts.finish_segment(before, 0, written=FOLLOWERS, now=before.accepted_at)
    assert after is not None
    assert (after.state, after.pending, after.delivered) == (COMPLETE, frozenset(), FOLLOWERS)
    posts = Stores(client, stub_data.SETTINGS).posts
    stored = posts.one(stub_data.post(FOLLOWERS))
    assert stored is not None
    assert stored.is_of(before.publisher_id, before.sort_key)
    assert not stored.deleted


def test_a_page_of_a_timeline_is_full_newest_first_and_each_post_is_there() -> None:
    timelines = Stores(client, stub_data.SETTINGS).entries
    entries, more = page_of(timelines, stub_data.READER, Range(""), start=None, limit=50)
    keys = [entry.sort_key for entry in entries]
    assert (len(set(keys)), more) == (50, True)
    assert keys == sorted(keys, reverse=True)
    ref_ids = {split_sort_key(key)[1] for key in keys}
    posts, left = Stores(client, stub_data.SETTINGS).posts.get(ref_ids)
    assert (len(posts), left) == (50, set())
    assert all(json.loads(post.body)["title"] for post in posts.values())


def test_rivals_write_the_items_of_the_product() -> None:
    (item,) = stub_data.items(stub_data.entry(FOLLOWERS), [stub_data.follower(3)])
    assert item["user_id"] == {"S": stub_data.follower(3)}
    assert set(item) == {"user_id", "sort_key", "publisher_id", "expires_at"}
    (plain,) = clients.plain([item])
    assert plain["user_id"] == stub_data.follower(3)
    assert str(plain["expires_at"]) == item["expires_at"]["N"]


@pytest.mark.network
def test_the_stub_answers_boto3_counts_puts_and_refuses_what_no_bench_calls() -> None:
    with stub() as running:
        boto: Any = boto3.client(
            "dynamodb",
            endpoint_url=running.url,
            verify=running.authority,
            region_name=stub_data.REGION,
        )
        posts = stub_data.SETTINGS.posts_table
        users = [stub_data.follower(number) for number in range(2)]
        items = stub_data.items(stub_data.entry(FOLLOWERS), users)
        puts = [{"PutRequest": {"Item": item}} for item in items]
        request = {stub_data.SETTINGS.timelines_table: puts}
        assert boto.batch_write_item(RequestItems=request)["UnprocessedItems"] == {}
        assert running.items() == (2, items)
        assert running.items() == (0, []), "kept until they are read"
        key = {"ref_id": {"S": stub_data.post(FOLLOWERS)}}
        answer = boto.get_item(TableName=posts, Key=key)
        assert answer["Item"]["ref_id"] == key["ref_id"]
        # boto3 checks it.
        assert "x-amz-crc32" in answer["ResponseMetadata"]["HTTPHeaders"]
        with pytest.raises(boto.exceptions.ClientError, match="ValidationException"):
            boto.describe_table(TableName=posts)
        # The environment is like that of a Lambda role.
        environment = running.environment()
        assert len(environment["AWS_SESSION_TOKEN"]) == TOKEN_CHARS
        assert environment["AWS_ENDPOINT_URL_DYNAMODB"] == running.url
        assert environment["TRANSPORT"] == "libcurl"


@pytest.mark.network
@pytest.mark.parametrize("name", ["api", "deliver", "query"])
def test_a_plain_function_makes_the_calls_of_ours(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rival of a cold start calls neither more nor less; but it shows what is unfollowed."""
    module = {"query": "timeline"}.get(name, name)
    event: Any = getattr(doors, module)(*{"deliver": [60], "query": [20]}.get(name, []))
    # Not when this module was loaded: minutes later, SWEEP asks about what is open.
    monkeypatch.setenv("BENCH_NOW_MS", str(clock.now_ms()))
    made = {}
    with stub() as running:
        for key, value in running.environment().items():
            monkeypatch.setenv(key, value)
        for door in (f"functions.{module}", f"proof.bench.cold_start.plain_{name}"):
            answer(door, event)
            made[door] = Counter(running.operations())
    ours, theirs = made.values()
    assert theirs
    more = {"dynamodb_20120810.batchgetitem": 1} if name == "query" else {}
    assert ours - theirs == Counter(more)
    assert not theirs - ours
