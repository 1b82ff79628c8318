"""Orders to reconcile and follow messages, while the edges of one publisher are throttled."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from fanfold import clock as product_clock
from fanfold import names
from fanfold.follows.edges import Edges
from fanfold.follows.relation import FOLLOWED, Follow
from functions import plan, relate
from proof.model.lambda_events import Context
from tests.service import AT, AT_MS, Json, System, error
from tests.stores import written

HOT = "celebrity"
BATCH = names.RELATION.batch_size
HOUR = 60 * 60
# Six such attempts are as long as a follow is tried.
CALL_SECONDS = 0.6


class Waited(threading.local):
    """How many seconds this thread has waited; others wait beside it."""

    seconds = 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@dataclass
class Crowd:
    """A publisher whose write shard refuses, slowly; everybody else's takes each edge."""

    system: System
    seconds: float = CALL_SECONDS
    is_hot: bool = True
    refused: list[Json] = field(default_factory=list)
    waited: Waited = field(default_factory=Waited)  # in this batch

    def put_item(self, plain: Any, **request: Any) -> Any:
        if self.is_hot and request["Item"]["shard_id"]["S"].startswith(HOT):
            self.refused.append(request)
            self.waited.sleep(self.seconds)
            raise error("ProvisionedThroughputExceededException")
        return plain(**request)

    def now(self) -> float:
        """The monotonic clock of this thread."""
        return self.system.clock.seconds + self.waited.seconds

    def owe(self, user: str, publisher: str) -> Json:
        """Leave a follow without its edge, as a door does that gave up; returns the order."""
        seen = Follow(user_id=user, publisher_id=publisher, followed_at=AT)
        assert written(self.system.follows, seen, FOLLOWED, now_ms=AT_MS, max_follows=9)
        return self.order(user, publisher)

    def order(self, user: str, publisher: str) -> Json:
        order = {"version": 1, "type": "relation.settle", "user_id": user}
        order["publisher_id"] = publisher
        url = self.system.url("Relation")
        self.system.sqs.send_message(QueueUrl=url, MessageBody=json.dumps(order))
        return order

    def receive(self, queue: names.Queue) -> list[Json]:
        """One receive of all messages, the celebrity's first; returns those that failed."""
        records = self.system.receive(queue.name)
        records.sort(key=lambda record: HOT not in record["body"])
        if not records:
            return []
        self.waited = Waited()
        self.system.context = Context(self.now() + queue.consumer.seconds, self.now)
        failed = self.system.take({"Records": records})
        for record in records:
            if record["messageId"] not in failed:
                self.system.delete(queue.name, record)
        return [json.loads(r["body"]) for r in records if r["messageId"] in failed]

    def go_on(self, queue: names.Queue, *, seconds: float) -> None:
        """Receive whatever becomes visible within a time."""
        until = self.system.clock.seconds + seconds
        while self.system.clock.seconds < until:
            self.receive(queue)
            self.system.clock.advance(queue.visibility_seconds + 1)


@pytest.fixture
def crowd(system: System, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    found = Crowd(system)
    monkeypatch.setattr(product_clock, "sleep", lambda seconds: found.waited.sleep(seconds))
    monkeypatch.setattr(product_clock, "monotonic", found.now)
    for queue in (names.PUBLISH, names.RELATION):
        system.sqs.set_queue_attributes(
            QueueUrl=system.url(queue.name),
            Attributes={"VisibilityTimeout": str(queue.visibility_seconds)},
        )
    plain = system.edge_client.put_item
    monkeypatch.setattr(
        system.edge_client, "put_item", lambda **request: found.put_item(plain, **request)
    )
    return found


def test_orders_for_others_are_carried_out_beside_those_for_a_celebrity(
    system: System, crowd: Crowd
) -> None:
    for number in range(BATCH - 3):
        crowd.owe(f"fan-{number}", HOT)
    for number in range(3):
        crowd.owe(f"reader-{number}", f"writer-{number}")
    crowd.go_on(names.RELATION, seconds=20 * 60)
    letters = {order["publisher_id"] for order in system.bodies("RelationDlq")}
    assert letters <= {HOT}, "however often they are received"
    assert [system.edges(f"writer-{number}") for number in range(3)] == [
        [f"reader-{number}"] for number in range(3)
    ]


@pytest.mark.parametrize("ends", [True, False])
def test_an_order_outlasts_an_hour_in_a_crowd_and_is_a_dead_letter_within_two(
    system: System, crowd: Crowd, ends: bool
) -> None:
    crowd.seconds = 0
    order = crowd.owe("fan", HOT)
    crowd.go_on(names.RELATION, seconds=HOUR)
    assert (system.edges(HOT), system.waiting("RelationDlq")) == ([], 0)
    if not ends:
        crowd.go_on(names.RELATION, seconds=HOUR)
        assert system.bodies("RelationDlq") == [order]
        return
    crowd.is_hot = False
    crowd.go_on(names.RELATION, seconds=names.RELATION.visibility_seconds)
    assert system.edges(HOT) == ["fan"]
    crowd.go_on(names.RELATION, seconds=names.RELATION.visibility_seconds)
    assert system.waiting("Relation") == 0, "it has looked for posts a second time"


@pytest.mark.parametrize("is_hot", [True, False])
def test_orders_of_one_batch_for_one_follow_are_carried_out_once(
    system: System, crowd: Crowd, monkeypatch: pytest.MonkeyPatch, is_hot: bool
) -> None:
    crowd.is_hot = is_hot
    order = crowd.owe("fan", HOT)
    for _ in range(BATCH - 1):
        crowd.order("fan", HOT)
    reads = []
    plain = Edges.ensure

    def ensure(self: Edges, *args: Any, **more: Any) -> None:
        reads.append(args)
        plain(self, *args, **more)

    monkeypatch.setattr(Edges, "ensure", ensure)
    assert crowd.receive(names.RELATION) == ([order] * BATCH if is_hot else [])
    assert len(reads) == 1
    assert system.waiting("Relation") == (BATCH if is_hot else 0)


def test_a_message_to_follow_a_celebrity_is_left_to_relate(system: System, crowd: Crowd) -> None:
    for publisher in (*(f"{HOT}-{number}" for number in range(BATCH - 1)), "writer"):
        body = {"version": 1, "type": "follow.added", "user_id": "fan", "publisher_id": publisher}
        system.sqs.send_message(QueueUrl=system.url("Publish"), MessageBody=json.dumps(body))
    assert crowd.receive(names.PUBLISH) == [], "one user's messages are taken in turn, all in time"
    assert all(row["state"]["S"] == "followed" for row in system.rows(names.FOLLOWING))
    assert (system.edges("writer"), system.waiting("Publish")) == (["fan"], 0)
    assert crowd.refused
    crowd.is_hot = False
    system.clock.advance(names.PLAN.settled_seconds)
    assert crowd.receive(names.RELATION) == []
    assert [system.edges(f"{HOT}-{number}") for number in range(BATCH - 1)] == (
        [["fan"]] * (BATCH - 1)
    )


def test_both_functions_have_a_thread_for_each_message_of_a_batch() -> None:
    for door, queue in ((plan.MESSAGES, names.PUBLISH), (relate.COMMANDS, names.RELATION)):
        assert getattr(door, "_max_workers") == queue.batch_size  # noqa: B009
