"""The bench of write shards: its short run, and its counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proof.bench import runner
from proof.bench.shards.rush import GrowthPlan, GrowthRush
from proof.simulation.timed.system import PUBLISHER

# A little more than one partition takes, for a little longer than the wait before a growth.
SMALL = GrowthPlan(follows_per_second=1_600, seconds=8, containers=20)


@pytest.mark.slow
def test_a_short_run_reaches_every_target() -> None:
    figures = runner.run_here("shards", short=True).figures
    assert [figure for figure in figures if not figure.met] == []


def test_a_rush_is_throttled_until_the_publisher_grows_and_loses_no_acknowledged_follower() -> None:
    rush = GrowthRush(SMALL)
    counts = rush.run()
    assert counts.offered.total() == pytest.approx(8 * 1_600, rel=0.1)
    assert len(rush.acknowledged) + counts.given_up == counts.offered.total()
    assert counts.accepted.total() == len(rush.acknowledged)
    assert counts.puts.total() == counts.accepted.total() + counts.throttled.total()
    ((at, level),) = counts.levels
    assert level == rush.publishers.shards(PUBLISHER).level == 1
    assert 1 < at < 6
    assert counts.throttled[int(at) - 1] > 200
    assert counts.throttled[7] < 10
    assert rush.found() == dict.fromkeys(rush.acknowledged, 1)
    assert rush.lost() == 0
    rush.acknowledged.add("nobody")
    assert rush.lost() == 1


@pytest.mark.slow
def test_relate_leaves_no_second_edge_although_it_learns_of_a_growth_late() -> None:
    rush = GrowthRush(replace(SMALL, seconds=14))
    counts = rush.run()
    assert len(counts.levels) == 1
    assert counts.reconciled > 500
    assert rush.twice() == 0
