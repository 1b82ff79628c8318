"""SWEEP beside a large backlog, and after a large loss: in virtual time, on the model."""

from __future__ import annotations

from typing import Any

import pytest

from fanfold import contract, times
from fanfold.sweep import run_limits
from fanfold.sweep.oldest import Oldest
from tests.stores import SweepStage

MINUTE = 60.0


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> SweepStage:
    return SweepStage(monkeypatch, validates=False)  # of some 20,000 calls


def work(stage: SweepStage, queue: Any) -> int:
    """Take all orders of a queue, and finish what they are about; returns their number."""
    taken, queue.sent = queue.sent, []
    now = times.to_text(stage.clock.ms)
    for content in (order.content for order in taken):
        fanout_id = content["fanout_id"]
        if content["type"] == contract.FANOUT_PLAN:
            stage.ledger.complete_at_once(fanout_id, followers=0, now=now)
        else:
            row = stage.row_of(fanout_id)
            stage.ledger.finish_segment(row, content["segment"], written=1, now=now)
    return len(taken)


@pytest.mark.parametrize("posts", [1_000, pytest.param(10_000, marks=pytest.mark.thorough)])
def test_ten_thousand_lost_commands_are_mended_within_ten_runs(
    stage: SweepStage, posts: int
) -> None:
    stage.add(*(f"post-{number}" for number in range(posts)))
    runs = messages = 0
    while any(stage.ledger.open_ids()):
        stage.clock.advance(MINUTE)
        stage.sweep()
        messages += work(stage, stage.commands)
        runs += 1
    assert runs <= 10
    assert messages <= 1.1 * posts


def test_a_loss_beyond_the_thousandth_open_fanout_is_mended_beside_a_backlog(
    stage: SweepStage,
) -> None:
    """1,500 bulk fan-outs wait rightly for hours; 20 posts behind them in order of id are lost."""
    stage.add(*(f"large-{number}" for number in range(1_500)), segments=2, is_sent=True)
    backlog = len(stage.bulk.sent)
    stage.clock.advance(2 * 3600)
    stage.add(*(f"small-{number}" for number in range(20)))
    stage.add(*(f"tiny-{number}" for number in range(20)), segments=1)
    for _ in range(11):
        stage.clock.advance(MINUTE)
        stage.sweep()
        work(stage, stage.commands)
        work(stage, stage.express)
    left = [*stage.ledger.open_ids()]
    assert [each for each in left if not each.startswith("large")] == []
    assert {stage.row_of(each).state for each in left} == {"delivering"}
    assert len(stage.bulk.sent) <= 3 * backlog, "two questions for each at most"


def test_large_fanouts_that_one_run_cannot_read_are_not_taken_for_small_ones(
    stage: SweepStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the alarm for small posts would ring through every large event."""
    monkeypatch.setattr(run_limits, "MAX_ROWS", 2)
    celebrities = [f"celebrity-{number}" for number in range(5)]
    stage.add(*celebrities, segments=64, is_sent=True)
    stage.clock.advance(10 * MINUTE)
    stage.add("unread", segments=1, is_sent=True)
    stage.add("unplanned")
    stage.clock.advance(5 * MINUTE)
    assert stage.sweep() == Oldest(300.0, 900.0)
    # Progress keeps what a key says.
    for each in celebrities:
        now = times.to_text(stage.clock.ms)
        stage.ledger.finish_segment(stage.row_of(each), 0, written=1, now=now)
    assert stage.row_of("unread").is_open
    assert stage.sweep() == Oldest(300.0, 900.0)
