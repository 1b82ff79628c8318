"""The bench of backfills: its short run, and the rules that it shows to matter."""

from __future__ import annotations

import pytest

from fanfold.follows.backfill import POSTS_WHEN_LATE
from fanfold.settings import Settings
from proof.bench import runner


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
