"""SWEEP beside a large backlog, and after a large loss: in virtual time, on the model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from aws_model.clock import Clock
from aws_model.dynamodb import client as dynamodb
from aws_model.dynamodb.database import Database
from aws_model.sqs import client as sqs
from aws_model.sqs.client import Queues
from fanfold import clock, contract, names, times
from fanfold.aws.event_sources import EventSourceMappings
from fanfold.aws.queues import WorkQueue
from fanfold.fanout.lanes import Lanes
from fanfold.fanout.ledger import Ledger
from fanfold.fanout.row import Fanout
from fanfold.sweep import course
from fanfold.sweep.course import Oldest
from fanfold.sweep.open_fanouts import OpenFanouts
from fanfold.sweep.sweep import Sweeping
from simulation.schemas import schema_of

MINUTE = 60.0


@dataclass
class Stack:
    """The ledger, the queues and SWEEP, with workers that take what they are given."""

    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        database = Database(self.clock)
        database.create(schema_of(names.FANOUTS))
        tables: Any = dynamodb.Client(database, validates=False)
        self.queues = Queues(self.clock)
        self.sqs: Any = sqs.Client(self.queues, validates=False)
        self.urls = {
            queue: self.queues.create(queue.name, visibility_seconds=queue.visibility_seconds)
            for queue in (names.PUBLISH, names.EXPRESS, names.BULK)
        }
        self.ledger = Ledger(tables, names.FANOUTS.name)
        lanes = Lanes(self.queue(names.EXPRESS), self.queue(names.BULK))
        self.sweeping = Sweeping(
            OpenFanouts(tables, names.FANOUTS.name),
            self.ledger,
            self.queue(names.PUBLISH),
            lanes,
            EventSourceMappings(None, {}),  # type: ignore[arg-type]
        )

    def queue(self, queue: names.Queue) -> WorkQueue:
        return WorkQueue(self.sqs, self.urls[queue])

    def open(self, fanout_id: str, *, segments: int = 0, sent: bool = False) -> Fanout:
        """Accept a fan-out, and plan it; its orders are lost unless they are `sent`."""
        now = times.to_text(self.clock.now_ms())
        fanout = Fanout(
            fanout_id=fanout_id,
            publisher_id=f"publisher of {fanout_id}",
            sort_key=f"{now}#{fanout_id}",
            accepted_at=now,
            expires_at=self.clock.now_ms() // 1000 + 30 * 86_400,
        )
        self.ledger.open(fanout)
        if segments:
            self.ledger.plan(fanout, segments=segments, followers=9, level=0, now=now)
        if sent:
            self.sweeping.lanes.send_pending(self.row(fanout_id))
        return fanout

    def row(self, fanout_id: str) -> Fanout:
        row = self.ledger.get(fanout_id)
        assert row
        return row

    def sweep(self) -> Oldest:
        return self.sweeping.sweep(stop_at=clock.monotonic() + 45, report=lambda _swept: None)

    def work(self, queue: names.Queue, limit: int) -> int:
        """Take up to `limit` orders of a queue, and finish what they are about."""
        taken = 0
        while taken < limit:
            answer = self.sqs.receive_message(QueueUrl=self.urls[queue], MaxNumberOfMessages=10)
            for message in answer.get("Messages", []):
                self._finish(json.loads(message["Body"]))
                self.sqs.delete_message(
                    QueueUrl=self.urls[queue], ReceiptHandle=message["ReceiptHandle"]
                )
                taken += 1
            if "Messages" not in answer:
                break
        return taken

    def _finish(self, content: dict[str, Any]) -> None:
        now, fanout_id = times.to_text(self.clock.now_ms()), content["fanout_id"]
        if content["type"] == contract.FANOUT_PLAN:
            self.ledger.complete_at_once(fanout_id, followers=0, now=now)
            return
        row = self.row(fanout_id)
        if content["segment"] in row.pending:
            self.ledger.finish_segment(row, content["segment"], written=1, now=now)

    def waiting(self, queue: names.Queue) -> int:
        return len(self.queues.queue(self.urls[queue]).messages())

    def open_ids(self) -> list[str]:
        return sorted(self.ledger.open_ids())


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Stack:
    found = Stack()
    monkeypatch.setattr(clock, "now_ms", found.clock.now_ms)
    monkeypatch.setattr(clock, "monotonic", found.clock.monotonic)
    monkeypatch.setattr(clock, "sleep", found.clock.advance)
    return found


@pytest.mark.parametrize("posts", [1_000, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_ten_thousand_lost_commands_are_mended_within_ten_runs(stack: Stack, posts: int) -> None:
    for number in range(posts):
        stack.open(f"post-{number}")
    runs = messages = 0
    while stack.open_ids():
        stack.clock.advance(MINUTE)
        stack.sweep()
        messages += stack.work(names.PUBLISH, limit=posts)
        runs += 1
    assert runs <= 10
    assert messages <= 1.1 * posts


def test_a_loss_beyond_the_thousandth_open_fanout_is_mended_beside_a_backlog(stack: Stack) -> None:
    """1,500 bulk fan-outs wait rightly for hours; 20 posts behind them in order of id are lost."""
    for number in range(1_500):
        stack.open(f"large-{number}", segments=2, sent=True)
    backlog = stack.waiting(names.BULK)
    stack.clock.advance(2 * 3600)
    for number in range(20):
        stack.open(f"small-{number}")
        stack.open(f"tiny-{number}", segments=1)
    for _ in range(11):
        stack.clock.advance(MINUTE)
        stack.sweep()
        stack.work(names.PUBLISH, limit=100)
        stack.work(names.EXPRESS, limit=100)
    assert not [each for each in stack.open_ids() if not each.startswith("large")]
    assert {stack.row(each).state for each in stack.open_ids()} == {"delivering"}
    assert stack.waiting(names.BULK) <= 3 * backlog, "two questions for each at most"


def test_large_fanouts_that_one_run_cannot_read_are_not_taken_for_small_ones(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the alarm for small posts would ring through every large event."""
    monkeypatch.setattr(course, "MAX_ROWS", 2)
    for number in range(5):
        stack.open(f"celebrity-{number}", segments=64, sent=True)
    stack.clock.advance(10 * MINUTE)
    unread = stack.open("unread", segments=1, sent=True)
    stack.open("unplanned")
    stack.clock.advance(5 * MINUTE)
    assert stack.sweep() == Oldest(300.0, 900.0)
    # Progress keeps what a key says.
    for number in range(5):
        row = stack.row(f"celebrity-{number}")
        stack.ledger.finish_segment(row, 0, written=1, now=times.to_text(stack.clock.now_ms()))
    assert stack.row(unread.fanout_id).is_open
    assert stack.sweep() == Oldest(300.0, 900.0)
