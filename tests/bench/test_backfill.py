"""The bench of backfills: its short run, and the rules that it shows to matter."""

from __future__ import annotations

import pytest

from fanfold.follows.backfill import POSTS_WHEN_LATE
from fanfold.settings import Settings
from proof.bench import runner
from proof.bench.backfill.races import race
from proof.bench.backfill.rush import PUBLISHES, RushPlan, rush
from proof.bench.backfill.system import Way


@pytest.mark.slow
def test_a_short_run_reaches_every_target_and_shows_why_each_rule_is_there() -> None:
    result = runner.run_here("backfill", short=True)
    assert [figure for figure in result.figures if not figure.met] == []
    rows = {row.name: row.value for row in result.rows}
    # Of 1,000 races.
    assert rows["missed by fan-outs alone"] > 50
    assert rows["missed without both"] > 50
    assert rows["missed without the second pass"] > 2
    assert rows["missed believing every page of the last minute"] > 20
    # In a rush a follow brings fewer posts, and waits for minutes at most.
    assert POSTS_WHEN_LATE <= rows["for each follow"] < Settings.backfill
    assert rows["a follow's wait for its posts"] < 180
    # On a cold table RELATE leaves room for deliveries.
    assert rows["cold: small publish"] < 2
    assert rows["cold: RELATE's part"] < 100


def test_by_its_rule_a_page_may_be_remembered_for_long() -> None:
    found = race(Way(remembers_seconds=600), 100)
    assert found.raced > 30
    assert found.missed == found.promised_missed == 0


def test_while_relate_keeps_up_every_follow_brings_all_posts_within_a_second() -> None:
    calm = RushPlan(follows=60, seconds=30, capacity=4_000, large=10_000)
    found = rush(calm)
    assert found.entries == (calm.follows + PUBLISHES) * Settings.backfill
    assert max(*found.waits, *found.other_waits) < 1
