"""What an operator does on the engine: pause, redrive dead letters, read a delivery's status."""

import json
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fanfold.stores import Stores
from fanfold_cli.local.home import Home
from fanfold_cli.stack import Deployment
from tests.e2e.clients import User, eventually, left, operate

Make = Callable[[str], User]
Run = Callable[..., Any]

LONG_AGO = "2026-01-01T00:00:00.000Z"


@pytest.fixture
def fanfold(engine: Home) -> Run:
    """Run `fanfold … --json` on the engine, and return the parsed output."""
    return partial(operate, engine)


@pytest.fixture
def sweep(stack: Deployment) -> Callable[[], None]:
    """Invoke SWEEP now, without waiting for the next minute."""
    client = stack.client("lambda")
    known = client.list_functions()["Functions"]
    (name,) = [f["FunctionName"] for f in known if f["Handler"] == "functions.sweep.handler"]

    def invoke() -> None:
        answer = client.invoke(FunctionName=name, Payload=b"{}")
        assert "FunctionError" not in answer, answer["Payload"].read()

    return invoke


def test_a_publisher_sees_the_delivery_complete(make: Make, fanfold: Run) -> None:
    publisher, follower = make("publisher"), make("follower")
    follower.follow(publisher)
    ref_id = publisher.publish()["ref_id"]
    path = f"/v1/posts/{ref_id}/delivery"
    eventually(lambda: publisher.call("GET", path).content["state"] == "complete")
    status = publisher.call("GET", path).content
    assert (status["delivered"], status["segments_done"], status["segments"]) == (1, 1, 1)
    assert fanfold("fanout", "show", ref_id) == status
    assert fanfold("fanout", "watch", ref_id) == status
    refused = follower.call("GET", path)
    assert (refused.status, refused.kind) == (404, "application/problem+json")


def test_a_pause_stops_deliveries_sweep_sends_nothing_again_and_one_is_abandoned(
    stack: Deployment, make: Make, fanfold: Run, sweep: Callable[[], None]
) -> None:
    publisher, follower = make("publisher"), make("follower")
    follower.follow(publisher)
    settings, dynamodb = stack.settings(), stack.client("dynamodb")
    fanouts = Stores(dynamodb, settings).ledger
    # RELATE looks at the outbox of a new follow, and would bring what nobody delivers.
    eventually(lambda: left(stack, settings.relation_queue_url) == 0)
    try:
        paused = fanfold("pause")
        assert [lane["state"] for lane in paused["lanes"]] == ["Disabled"] * 3
        assert not any(lane["changed"] for lane in fanfold("pause")["lanes"])
        ref_id = publisher.publish()["ref_id"]
        for _ in range(3):
            overdue(stack, ref_id)
            sweep()
        assert left(stack, settings.publish_queue_url) == 1, "SWEEP sent the order again"
        held = fanouts.get(ref_id)
        assert held is not None
        assert (held.state, held.asks, held.delivered) == ("queued", 0, 0)
        assert follower.ref_ids() == []
        unwanted = publisher.publish()["ref_id"]
        listed = {row["ref_id"]: row for row in fanfold("fanout", "list", "--open")["fanouts"]}
        assert listed[unwanted]["state"] == "queued"
        assert fanfold("fanout", "abandon", unwanted, "--yes")["abandoned"] == [unwanted]
        still_open = fanfold("fanout", "list", "--open")["fanouts"]
        assert [row["ref_id"] for row in still_open] == [ref_id]
    finally:
        resumed = fanfold("resume")
    assert [lane["state"] for lane in resumed["lanes"]] == ["Enabled"] * 3
    eventually(lambda: left(stack, settings.publish_queue_url) == 0)
    assert follower.ref_ids() == [ref_id], "the other one was abandoned"
    assert fanfold("fanout", "show", unwanted)["state"] == "abandoned"
    assert left(stack, settings.express_dlq_url) == 0
    assert left(stack, settings.express_queue_url) == 0, "in one hop, also after a pause"


def overdue(stack: Deployment, ref_id: str) -> None:
    """Let a fan-out look as if it had been open and silent for long."""
    stack.client("dynamodb").update_item(
        TableName=stack.settings().fanouts_table,
        Key={"fanout_id": {"S": ref_id}},
        UpdateExpression="SET changed_at = :then, open_fanout = :key",
        ExpressionAttributeValues={":then": {"S": LONG_AGO}, ":key": {"S": f"{LONG_AGO}#{ref_id}"}},
    )


def test_dead_letters_are_listed_redriven_and_dropped_if_too_old(
    stack: Deployment, make: Make, fanfold: Run, tmp_path: Path
) -> None:
    publisher, follower = make("publisher"), make("follower")
    follower.follow(publisher)
    ref_id = uuid.uuid4().hex
    post = {"version": 1, "type": "post.published", "publisher_id": publisher.name}
    settings, sqs = stack.settings(), stack.client("sqs")
    sent = sqs.send_message(
        QueueUrl=settings.publish_dlq_url, MessageBody=json.dumps({**post, "ref_id": ref_id})
    )
    old = sqs.send_message(
        QueueUrl=settings.publish_dlq_url,
        MessageBody=json.dumps({**post, "ref_id": "old", "published_at": LONG_AGO}),
    )
    for _ in range(2):
        listed = fanfold("dlq", "list", "--queue", "publish")["messages"]
        assert {sent["MessageId"], old["MessageId"]} <= {each["message_id"] for each in listed}
    done = fanfold("dlq", "redrive", "--queue", "publish", "--rate", "100")
    assert done["stayed"] == {"expired": 1}
    eventually(lambda: follower.ref_ids() == [ref_id])
    shown = fanfold("dlq", "show", old["MessageId"])
    assert json.loads(shown["body"])["ref_id"] == "old"
    file = str(tmp_path / "letters.jsonl")
    dropped = fanfold("dlq", "drop", old["MessageId"], "--to", file, "--yes")
    assert (dropped["dropped"], dropped["not_dropped"]) == (1, [])
    assert fanfold("dlq", "list", "--queue", "publish")["messages"] == []
    assert fanfold("dlq", "restore", file, exit_code=1) == {"sent": 0, "stayed": {"expired": 1}}


def test_a_queue_is_redriven_message_by_message_where_move_tasks_are_missing(
    stack: Deployment, fanfold: Run
) -> None:
    settings = stack.settings()
    stack.client("sqs").send_message(QueueUrl=settings.relation_dlq_url, MessageBody="no JSON")
    done = fanfold("dlq", "redrive", "--queue", "relation")
    queue = {"queue": "relation", "moved": 1, "stayed": {}, "how": "loop", "held": 0, "error": ""}
    assert done["queues"] == [queue]

    def rejected() -> bool:
        found = fanfold("dlq", "list", "--queue", "relation")["messages"]
        return [each["reason"] for each in found] == ["The message is not JSON."]

    eventually(rejected)
    done = fanfold("dlq", "redrive", "--queue", "relation")
    assert (done["moved"], done["stayed"]) == (0, {"contract": 1})
    stack.client("sqs").purge_queue(QueueUrl=settings.relation_dlq_url)
