"""The stub endpoint: it answers like DynamoDB, and counts what was put."""

from collections import Counter
from typing import Any

import boto3
import pytest

from fanfold import clock
from proof.bench import doors, stub_data
from proof.bench.endpoint import TOKEN_CHARS, stub
from proof.bench.fresh import answer

FOLLOWERS = 60


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
