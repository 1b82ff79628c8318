"""The bench of write shards: its short run, and its counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import runner
from bench.shards.bench import Found
from bench.shards.history import read_units_of
from bench.shards.rush import Counts, Plan, Rush
from simulation.timed.system import PUBLISHER

# A little more than one partition takes, for a little longer than the wait before a growth.
SMALL = Plan(follows_per_second=1_600, seconds=8, containers=20)


@pytest.mark.slow
def test_a_short_run_reaches_every_target() -> None:
    figures = runner.run_here("shards", short=True).figures
    assert [figure for figure in figures if not figure.met] == []


# A rush


def test_a_seed_repeats_its_rush() -> None:
    plan = Plan(follows_per_second=400, seconds=2, containers=5, warm_write_units=4_000)
    first, second, other = Rush(plan), Rush(plan), Rush(Plan(**{**vars(plan), "seed": 2}))
    assert first.run() == second.run() != other.run()


def test_every_follow_ends_and_each_acknowledged_follower_is_found_once() -> None:
    rush = Rush(SMALL)
    counts = rush.run()
    assert counts.offered.total() == pytest.approx(8 * 1_600, rel=0.1)
    assert len(rush.acknowledged) + counts.given_up == counts.offered.total()
    assert counts.accepted.total() == len(rush.acknowledged)
    assert counts.puts.total() == counts.accepted.total() + counts.throttled.total()
    assert rush.found() == dict.fromkeys(rush.acknowledged, 1)
    assert rush.lost() == 0


def test_relate_leaves_no_second_edge_although_it_learns_of_a_growth_late() -> None:
    rush = Rush(replace(SMALL, seconds=14))
    counts = rush.run()
    assert len(counts.levels) == 1
    assert counts.reconciled > 500
    assert rush.twice() == 0


def test_a_rush_is_throttled_until_the_publisher_grows() -> None:
    rush = Rush(SMALL)
    counts = rush.run()
    ((at, level),) = counts.levels
    assert level == rush.publishers.shards(PUBLISHER).level == 1
    assert 1 < at < 6
    assert counts.throttled[int(at) - 1] > 200
    assert counts.throttled[7] < 10


@pytest.mark.parametrize(("level", "taken"), [(0, 1_000), (4, 1_600)])
def test_fixed_shards_take_what_their_partitions_take(level: int, taken: int) -> None:
    rush = Rush(Plan(follows_per_second=1_600, seconds=5, containers=20, static_level=level))
    counts = rush.run()
    assert counts.levels == []
    assert counts.accepted[4] == pytest.approx(taken, rel=0.1)  # the bursts are over
    assert rush.publishers.shards(PUBLISHER).level == level
    assert rush.lost() == 0


def test_a_lost_follower_is_counted() -> None:
    rush = Rush(Plan(follows_per_second=100, seconds=1, containers=2))
    rush.run()
    rush.acknowledged.add("nobody")
    assert rush.lost() == 1


def found(*at_once: int) -> Found:
    """A rush of 100 follows a second; `at_once` says how many the first put took in each."""
    counts = Counts()
    for second, taken in enumerate(at_once):
        counts.offered[second], counts.at_once[second] = 100, taken
        counts.puts[second], counts.throttled[second] = 200, 100 - taken
    return Found(Plan(seconds=len(at_once)), counts, lost=0)


@pytest.mark.parametrize(
    ("at_once", "full_at"),
    [((95, 100), 0), ((94, 95), 1), ((100, 94, 95, 99), 2), ((100, 100, 94), 3)],
)
def test_full_rate_starts_where_it_lasts_until_the_end(
    at_once: tuple[int, ...], full_at: int
) -> None:
    assert found(*at_once).full_at == full_at


def test_throttles_are_counted_from_full_rate_on() -> None:
    assert found(0, 50, 96, 98).throttled_share == pytest.approx(6 / 400)
    assert found(0, 50).throttled_share == 1.0


# A ring


def test_a_ring_costs_more_read_units_at_higher_levels() -> None:
    costs = [read_units_of(2_000, level) for level in (0, 2, 4)]
    assert costs == sorted(costs)
    assert costs[0] == pytest.approx(2_000 * 115 / 4_096, rel=0.05)
