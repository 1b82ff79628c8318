"""The bench of backfills: its short run, and the rules that it shows to matter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import runner
from bench.backfill.bench import at_most
from bench.backfill.races import race
from bench.backfill.rush import PUBLISHES, Plan, rush
from bench.backfill.system import Way
from fanfold.follows.looks import POSTS_WHEN_LATE
from fanfold.settings import Settings

# So few that RELATE keeps up with them.
CALM = Plan(follows=60, seconds=30, capacity=4_000, large=10_000)


# They need the bench's short run, which takes minutes of a busy machine.
by_the_bench = pytest.mark.slow


@pytest.fixture(scope="module")
def rows() -> dict[str, float]:
    """The rows of a short run that has reached every target."""
    result = runner.run_here("backfill", short=True)
    assert [figure for figure in result.figures if not figure.met] == []
    return {row.name: row.value for row in result.rows}


@by_the_bench
def test_without_its_rules_a_backfill_misses_far_more_than_one_race_in_1000(
    rows: dict[str, float],
) -> None:
    assert rows["missed by fan-outs alone"] > 50
    assert rows["missed without both"] > 50
    assert rows["missed without the second look"] > 2
    assert rows["missed believing every page of the last minute"] > 20


def test_by_its_rule_a_page_may_be_remembered_for_long() -> None:
    found = race(Way(remembers_seconds=600), 100)
    assert found.raced > 30
    assert found.missed == found.promised_missed == 0


@by_the_bench
def test_in_a_rush_a_follow_brings_fewer_posts_and_waits_for_minutes_at_most(
    rows: dict[str, float],
) -> None:
    assert POSTS_WHEN_LATE <= rows["for each follow"] < Settings.backfill
    assert rows["a follow's wait for its posts"] < 180


def test_while_relate_keeps_up_every_follow_brings_all_posts_within_a_second() -> None:
    found = rush(CALM)
    assert found.entries == (CALM.follows + PUBLISHES) * Settings.backfill
    assert max(found.waits) < 1
    assert max(found.other_waits) < 1


@pytest.mark.parametrize(
    ("missed", "raced", "share"), [(0, 178, 0.0167), (0, 3_000, 0.001), (5, 5_300, 0.00198)]
)
def test_so_few_missed_races_show_at_most_a_share(missed: int, raced: int, share: float) -> None:
    assert at_most(missed, raced) == pytest.approx(share, rel=0.01)


@by_the_bench
def test_on_a_cold_table_relate_leaves_room_for_deliveries(rows: dict[str, float]) -> None:
    assert rows["cold: small publish"] < 2
    assert rows["cold: RELATE's part"] < 100


def test_a_seed_repeats_its_races() -> None:
    first, second, other = (race(Way(), 20, seed=seed) for seed in (1, 1, 2))
    assert first.races == second.races != other.races


def test_without_backfill_nothing_is_put() -> None:
    assert rush(replace(CALM, seconds=10), way=Way(posts=0)).entries == 0
