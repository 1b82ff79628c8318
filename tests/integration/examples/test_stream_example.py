"""The consumers of `examples/streams`, with records as Lambda hands them over."""

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.service import REGION

CODE = Path(__file__).parents[3] / "examples/streams/consumer/hear.py"
BY_DYNAMODB = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}

pytestmark = pytest.mark.moto("its tables and queues are no concern of other engines")


@pytest.fixture
def hear(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("hear", CODE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with mock_aws():
        for table, key in (("found", "ref_id"), ("readers", "user_id")):
            boto3.client("dynamodb").create_table(
                TableName=table,
                KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
        url = boto3.client("sqs").create_queue(QueueName="pushes")["QueueUrl"]
        monkeypatch.setenv("FOUND_TABLE", "found")
        monkeypatch.setenv("READERS_TABLE", "readers")
        monkeypatch.setenv("PUSHES_URL", url)
        yield module


def record(
    name: str, keys: dict[str, str], new: Any = None, old: Any = None, *, number: int = 100
) -> dict[str, Any]:
    """What a consumer reads of a record of Lambda's; images are of plain texts."""
    images = {"Keys": keys, "NewImage": new and keys | new, "OldImage": old and keys | old}
    return {
        "eventName": name,
        "dynamodb": {
            "ApproximateCreationDateTime": 1795430400.0,
            "SequenceNumber": f"{number:021d}",
            **{
                image: {field: {"S": value} for field, value in item.items()}
                for image, item in images.items()
                if item
            },
        },
    }


def post(name: str, ref_id: str = "a", **images: Any) -> dict[str, Any]:
    return record(name, {"ref_id": ref_id}, **images)


def found() -> dict[str, str]:
    items = boto3.resource("dynamodb").Table("found").scan()["Items"]
    return {str(item["ref_id"]): str(item["words"]) for item in items}


def heard(handler: Any, *records: dict[str, Any]) -> list[str]:
    """The sequence numbers that the handler wants again."""
    answer = handler({"Records": list(records)}, None)
    return [each["itemIdentifier"] for each in answer["batchItemFailures"]]


HELLO = {"publisher_id": "ada", "body": '{"title": "Hello"}'}
EDITED = {"publisher_id": "ada", "body": '{"title": "Hello again"}'}
RETRACTED = {"publisher_id": "ada", "deleted_at": "2026-11-23T12:00:00.000Z"}


def test_a_post_is_found_as_it_was_last_edited(hear: ModuleType) -> None:
    new, edited = post("INSERT", new=HELLO), post("MODIFY", new=EDITED, old=HELLO)
    assert not heard(hear.index, new, edited)
    assert found() == {"a": EDITED["body"]}
    assert not heard(hear.index, new, edited), "all of it comes again"
    assert found() == {"a": EDITED["body"]}


def test_a_post_without_a_body_is_found_too(hear: ModuleType) -> None:
    assert not heard(hear.index, post("INSERT", new={"publisher_id": "ada"}))
    assert found() == {"a": ""}


def test_a_retracted_post_and_one_that_has_expired_are_found_no_more(hear: ModuleType) -> None:
    heard(hear.index, post("INSERT", new=HELLO), post("INSERT", "b", new=HELLO))
    expired = post("REMOVE", "b", old=HELLO) | {"userIdentity": BY_DYNAMODB}
    assert not heard(hear.index, post("MODIFY", new=RETRACTED, old=HELLO), expired)
    assert not found()


def test_what_fails_is_repeated_from_there_on_and_what_came_before_is_not(hear: ModuleType) -> None:
    broken = record("INSERT", {"ref_id": ""}, new=HELLO, number=7)  # DynamoDB refuses the key
    assert heard(hear.index, post("INSERT", new=HELLO), broken, post("INSERT", "b", new=HELLO)) == [
        f"{7:021d}"
    ]
    assert found() == {"a": HELLO["body"]}


AT = "2026-11-23T10:39:00.000Z"  # a minute before the records


def entry(user_id: str = "ben", publisher_id: str = "ada", at: str = AT) -> dict[str, Any]:
    keys = {"user_id": user_id, "sort_key": f"{at}#a"}
    return record("INSERT", keys, new={"publisher_id": publisher_id})


def pushed() -> list[Any]:
    sqs = boto3.client("sqs")
    url = sqs.get_queue_url(QueueName="pushes")["QueueUrl"]
    messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
    return [json.loads(message["Body"]) for message in messages]


def test_each_new_entry_is_a_push_message(hear: ModuleType) -> None:
    assert not heard(hear.push, entry())
    assert pushed() == [{"user_id": "ben", "publisher_id": "ada", "entry": f"{AT}#a"}]


@pytest.mark.parametrize(
    "quiet",
    [
        pytest.param(entry(at="2026-10-25T12:00:00.000Z"), id="a follow brings a post of before"),
        pytest.param(entry(user_id="#ada"), id="a channel has no user"),
        pytest.param(entry(publisher_id="eve"), id="the reader has muted the publisher"),
    ],
)
def test_entries_that_are_no_news_to_the_reader_are_not_pushed(
    hear: ModuleType, quiet: dict[str, Any]
) -> None:
    muted: dict[str, Any] = {"user_id": "ben#muted", "publishers": {"eve", "mallory"}}
    boto3.resource("dynamodb").Table("readers").put_item(Item=muted)
    assert not heard(hear.push, quiet, entry())
    assert [message["entry"] for message in pushed()] == [f"{AT}#a"]
