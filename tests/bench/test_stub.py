"""The stub endpoint: it answers like DynamoDB, and counts what was put."""

import json
from collections import Counter
from typing import Any

import boto3
import pytest

from bench import clients, doors, stub_data
from bench.endpoint import TOKEN_CHARS, Stub, stub
from bench.fresh import answer
from fanfold import clock
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import COMPLETE, DELIVERING
from fanfold.follows import ring
from fanfold.follows.edges_table import EdgesTable
from fanfold.follows.publishers_table import PublishersTable
from fanfold.follows.ring_reader import Read
from fanfold.follows.sharding import Shards
from fanfold.ids import split_sort_key
from fanfold.timeline.entries import Entries
from fanfold.timeline.posts import Posts
from fanfold.timeline.source import Range

FOLLOWERS = 60


class DirectClient:
    """A client of the stub's answers, without a connection."""

    def __getattr__(self, method: str) -> Any:
        operation = method.replace("_", "")
        return lambda **request: json.loads(stub_data.answer(operation, request))


client: Any = DirectClient()


@pytest.mark.parametrize("limit", [7, 20, 60, 100])
def test_pages_of_followers_hold_each_follower_once_in_ring_order(limit: int) -> None:
    store = EdgesTable(client, stub_data.SETTINGS.followers_table)
    found: list[str] = []
    after, more = ring.START, True
    while more:
        page = store.page(stub_data.publisher(FOLLOWERS), Read(0, 0, after, ring.END), limit)
        found += page.edges
        after, more = (page.edges or found)[-1], page.more
    assert found == sorted(ring.edge(stub_data.follower(n)) for n in range(FOLLOWERS))


def test_a_page_ends_with_its_range() -> None:
    store = EdgesTable(client, stub_data.SETTINGS.followers_table)
    halves = [ring.segment_range(segment, 2) for segment in (0, 1)]
    pages = [store.page(stub_data.publisher(FOLLOWERS), Read(0, 0, h.lo, h.hi)) for h in halves]
    assert (*pages[0].edges, *pages[1].edges) == stub_data.edges(FOLLOWERS)
    assert not any(page.more for page in pages)


def test_the_ledger_completes_with_its_only_segment() -> None:
    fanouts = Ledger(client, stub_data.SETTINGS.fanouts_table)
    before = fanouts.get(stub_data.post(FOLLOWERS))
    assert before is not None
    assert (before.state, before.pending, before.segments) == (DELIVERING, frozenset({0}), 1)
    assert before.sort_key == stub_data.entry(FOLLOWERS).sort_key
    after = fanouts.finish_segment(before, 0, written=FOLLOWERS, now=before.accepted_at)
    assert after is not None
    assert (after.state, after.pending, after.delivered) == (COMPLETE, frozenset(), FOLLOWERS)
    posts = Posts(client, stub_data.SETTINGS.posts_table)
    stored = posts.one(stub_data.post(FOLLOWERS))
    assert stored is not None
    assert stored.is_of(before.publisher_id, before.sort_key)
    assert not stored.deleted


def test_a_publisher_has_no_row_and_so_one_shard() -> None:
    publishers = PublishersTable(client, stub_data.SETTINGS.publishers_table)
    assert publishers.shards(stub_data.publisher(FOLLOWERS)) == Shards()


def test_a_page_of_a_timeline_is_full_newest_first_and_each_post_is_there() -> None:
    timelines = Entries(client, stub_data.SETTINGS.timelines_table)
    entries, more = timelines.newest(stub_data.READER, Range(""), before=None, limit=50)
    keys = [entry.sort_key for entry in entries]
    assert (len(set(keys)), more) == (50, True)
    assert keys == sorted(keys, reverse=True)
    ref_ids = {split_sort_key(key)[1] for key in keys}
    posts, left = Posts(client, stub_data.SETTINGS.posts_table).get(ref_ids)
    assert (len(posts), left) == (50, set())
    assert all(json.loads(post.body)["title"] for post in posts.values())


def test_rivals_write_the_items_of_the_product() -> None:
    (item,) = stub_data.items(stub_data.entry(FOLLOWERS), [stub_data.follower(3)])
    assert item["user_id"] == {"S": stub_data.follower(3)}
    assert set(item) == {"user_id", "sort_key", "publisher_id", "expires_at"}
    (plain,) = clients.plain([item])
    assert plain["user_id"] == stub_data.follower(3)
    assert str(plain["expires_at"]) == item["expires_at"]["N"]


@pytest.fixture(scope="module")
def running() -> Any:
    with stub() as found:
        yield found


def _boto3(running: Stub) -> Any:
    return boto3.client(
        "dynamodb", endpoint_url=running.url, verify=running.authority, region_name=stub_data.REGION
    )


@pytest.mark.network
def test_puts_are_counted_and_kept_until_they_are_read(running: Stub) -> None:
    items = stub_data.items(stub_data.entry(FOLLOWERS), [stub_data.follower(n) for n in range(2)])
    puts = [{"PutRequest": {"Item": item}} for item in items]
    request = {stub_data.SETTINGS.timelines_table: puts}
    answer = _boto3(running).batch_write_item(RequestItems=request)
    assert answer["UnprocessedItems"] == {}
    assert running.items() == (2, items)
    assert running.items() == (0, [])


@pytest.mark.network
def test_an_answer_carries_the_checksum_that_boto3_checks(running: Stub) -> None:
    answer = _boto3(running).get_item(
        TableName=stub_data.SETTINGS.posts_table, Key={"ref_id": {"S": stub_data.post(FOLLOWERS)}}
    )
    assert answer["Item"]["ref_id"] == {"S": stub_data.post(FOLLOWERS)}
    assert "x-amz-crc32" in answer["ResponseMetadata"]["HTTPHeaders"]


@pytest.mark.network
def test_a_call_that_no_bench_makes_is_refused(running: Stub) -> None:
    client = _boto3(running)
    with pytest.raises(client.exceptions.ClientError, match="ValidationException"):
        client.describe_table(TableName=stub_data.SETTINGS.posts_table)


@pytest.mark.network
def test_the_environment_is_like_that_of_a_lambda_role(running: Stub) -> None:
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
        for door in (f"functions.{module}", f"bench.cold_start.plain_{name}"):
            answer(door, event)
            made[door] = Counter(running.operations())
    ours, theirs = made.values()
    assert theirs
    more = {"dynamodb_20120810.batchgetitem": 1} if name == "query" else {}
    assert ours - theirs == Counter(more)
    assert not theirs - ours
