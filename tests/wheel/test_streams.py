"""`examples/streams` on the local engine: what starts a consumer, and what it hears.

The engine honours filters. It deletes what has expired without a record of it, and repeats neither
the failed part of a batch nor a bisected one: for these,
`tests/integration/examples/test_stream_example.py` hands the consumers records in the form of AWS.
"""

import json
from typing import Any

import pytest

from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, eventually
from tests.wheel.test_embedding import EXAMPLES, Deploy

BY_DYNAMODB = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}


@pytest.mark.slow
def test_a_consumer_hears_of_posts_edits_retractions_and_entries(deploy_example: Deploy) -> None:
    stack = deploy_example(EXAMPLES / "streams")
    posts, entries = mapping(stack, "Index"), mapping(stack, "Push")
    assert starts(posts, "INSERT")
    assert starts(posts, "MODIFY")
    assert starts(posts, "REMOVE", userIdentity=BY_DYNAMODB)
    assert not starts(posts, "REMOVE")
    assert starts(entries, "INSERT")
    assert not starts(entries, "REMOVE", userIdentity=BY_DYNAMODB)

    ada, ben = (User(stack, name, stack.token(name)) for name in ("ada", "ben"))
    ben.follow(ada)
    first, second = (ada.publish(body={"title": title})["ref_id"] for title in ("One", "Two"))
    eventually(lambda: found(stack) == {first: {"title": "One"}, second: {"title": "Two"}})
    pushed: set[str] = set()
    eventually(lambda: pushes(stack, pushed) == {f"ben:{first}", f"ben:{second}"})
    ada.api.edit(first, {"title": "One and a half"})
    ada.api.retract(second)
    eventually(lambda: found(stack) == {first: {"title": "One and a half"}})


def mapping(stack: Deployment, function: str) -> dict[str, Any]:
    """The event source of the function whose name has this in it."""
    client = stack.client("lambda")
    (found,) = [
        each
        for each in client.list_event_source_mappings()["EventSourceMappings"]
        if f":Shop-{function}" in each["FunctionArn"]
    ]
    assert found["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert found["BisectBatchOnFunctionError"] is True
    assert ":sqs:" in found["DestinationConfig"]["OnFailure"]["Destination"]
    return dict(found)


def starts(source: dict[str, Any], event: str, **members: Any) -> bool:
    """Whether a record with these members starts the function."""
    patterns = [json.loads(each["Pattern"]) for each in source["FilterCriteria"]["Filters"]]
    return any(matches(pattern, {"eventName": event, **members}) for pattern in patterns)


def matches(pattern: Any, value: Any) -> bool:
    if isinstance(pattern, list):
        return value in pattern
    return all(matches(pattern[name], (value or {}).get(name)) for name in pattern)


def found(stack: Deployment) -> dict[str, Any]:
    """What the search index holds, by id."""
    items = stack.client("dynamodb").scan(TableName=stack.output("FoundTable"))["Items"]
    return {item["ref_id"]["S"]: json.loads(item["words"]["S"]) for item in items}


def pushes(stack: Deployment, known: set[str]) -> set[str]:
    """Who has been told of which post: what was known, and what else the queue holds."""
    sqs, url = stack.client("sqs"), stack.output("PushesUrl")
    for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
        told = json.loads(message["Body"])
        known.add(f"{told['user_id']}:{told['entry'].partition('#')[2]}")
    return known
