"""The HTTP endpoint, with and without faults, on a table and on the model."""

import json
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError

import fanfold.aws.boto  # noqa: F401 - it says which of botocore's errors are transient
from fanfold.aws.retries import is_transient
from proof.model import clock
from proof.model.dynamodb import client as dynamodb
from proof.model.dynamodb import database
from proof.model.endpoint import Answer, Request, answering_from, serving
from proof.model.faults import OTHERS, FaultyBatches, Rates
from proof.model.sqs import client as sqs

pytestmark = pytest.mark.network
ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1}, proxies={})


@dataclass
class Table:
    """A backend that takes every put and keeps its user."""

    users: list[str] = field(default_factory=list)

    def __call__(self, request: Request) -> Answer:
        content = json.loads(request.body)
        for write in content.get("RequestItems", {}).get("timelines", []):
            self.users.append(write["PutRequest"]["Item"]["user_id"]["S"])
        answer: Any = {"UnprocessedItems": {}} if "RequestItems" in content else {"Item": {}}
        return Answer(200, json.dumps(answer).encode())


@dataclass
class Way:
    """A client on a faulty way to a table."""

    table: Table
    client: Any
    counted: Counter[str]

    def put(self, *users: str) -> list[str]:
        """Put an entry for each; the users that came back."""
        puts = [{"PutRequest": {"Item": {"user_id": {"S": user}}}} for user in users]
        answer = self.client.batch_write_item(RequestItems={"timelines": puts})
        left = answer["UnprocessedItems"].get("timelines", [])
        return [write["PutRequest"]["Item"]["user_id"]["S"] for write in left]


@pytest.fixture
def ways() -> Iterator[Any]:
    with ExitStack() as ends:

        def to_a_table(rates: Rates, seed: int = 1) -> Way:
            table = Table()
            batches = FaultyBatches(table, rates, seed)
            url = ends.enter_context(serving(batches.answer))
            client = boto3.client("dynamodb", endpoint_url=url, config=ONCE)
            ends.callback(client.close)
            return Way(table, client, batches.counted)

        yield to_a_table


USERS = [f"user-{number}" for number in range(25)]


def test_a_part_of_a_batch_comes_back_unwritten(ways: Any) -> None:
    way = ways(Rates(partial=1.0))
    left = way.put(*USERS)
    assert 0 < len(left) < 25
    assert sorted(way.table.users + left) == sorted(USERS)
    assert way.counted == {"batches": 1, "asked": 25, "written": 25 - len(left), "partial": 1}
    assert way.put("ada") == [], "a batch of one has no part"


def test_a_throttled_batch_and_no_other_call_is_refused_has_no_effect_and_says_why(
    ways: Any,
) -> None:
    way = ways(Rates(throttled=1.0))
    with pytest.raises(ClientError) as caught:
        way.put(*USERS)
    assert caught.value.response["Error"]["Code"] == "ProvisionedThroughputExceededException"
    response: Any = caught.value.response
    assert response["ThrottlingReasons"][0]["reason"] == "TableWriteKeyRangeThroughputExceeded"
    assert is_transient(caught.value)
    assert way.table.users == []
    counted = way.counted.copy()
    way.client.get_item(TableName="posts", Key={"ref_id": {"S": "post"}})
    assert way.counted == counted, "other calls meet no faults by default"


@pytest.mark.parametrize(
    ("fault", "error"), [("broken", ClientError), ("reset", ConnectionClosedError)]
)
def test_batches_without_an_answer_are_written_half_of_the_time(
    ways: Any, fault: str, error: type[Exception]
) -> None:
    way = ways(Rates(**{fault: 1.0}))
    for user in USERS:
        with pytest.raises(error) as caught:
            way.put(user)
        assert is_transient(caught.value)
    before, after = way.counted[f"{fault} before"], way.counted[f"{fault} after"]
    assert min(before, after) > 0
    assert (before + after, len(way.table.users)) == (25, after)


def test_other_calls_can_meet_every_fault_but_a_partial_one(ways: Any) -> None:
    way = ways(Rates(others=1.0))
    for _ in range(40):
        with pytest.raises((ClientError, ConnectionClosedError)) as caught:
            way.client.get_item(TableName="posts", Key={"ref_id": {"S": "post"}})
        assert is_transient(caught.value)
    assert set(way.counted) == {f"other {fault}" for fault in OTHERS}
    assert len(OTHERS) == 5
    assert way.put(*USERS) == []


# The model


@pytest.fixture
def model() -> Iterator[tuple[Any, Any, sqs.Queues]]:
    """Clients of DynamoDB and SQS on the model behind HTTP, and the model's queues."""
    tables = dynamodb.Client(database.Database(clock.Clock()))
    tables.create_table(
        TableName="notes",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    queues = sqs.Queues(clock.Clock())
    with serving(answering_from(tables, sqs.Client(queues))) as url, ExitStack() as ends:
        tables_client = boto3.client("dynamodb", endpoint_url=url, config=ONCE)
        queues_client = boto3.client("sqs", endpoint_url=url, config=ONCE)
        ends.callback(tables_client.close)
        ends.callback(queues_client.close)
        yield tables_client, queues_client, queues


def test_the_model_takes_messages_and_has_the_error_codes_of_sqs(model: Any) -> None:
    _, client, queues = model
    url = queues.create("Express")
    client.send_message(QueueUrl=url, MessageBody="hello")
    (message,) = client.receive_message(QueueUrl=url)["Messages"]
    assert message["Body"] == "hello"
    with pytest.raises(client.exceptions.QueueDoesNotExist) as caught:
        client.send_message(QueueUrl=f"{url}-that-is-gone", MessageBody="hello")
    code = caught.value.response["Error"]["Code"]
    assert code == "AWS.SimpleQueueService.NonExistentQueue"


def test_calls_from_many_threads_lose_no_update(model: Any) -> None:
    client, _, _ = model
    key = {"id": {"S": "counter"}}
    add = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
    with ThreadPoolExecutor(8) as threads:
        for _ in range(200):
            threads.submit(client.update_item, TableName="notes", Key=key, **add)
    assert client.get_item(TableName="notes", Key=key)["Item"]["n"] == {"N": "200"}
