"""What a month costs: the figures of README.md are those of the code."""

from dataclasses import replace
from pathlib import Path

import pytest

from fanfold_cli import month_cost

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_shows_the_table_of_the_code() -> None:
    assert month_cost.table() in README.read_text()


def test_twice_the_posts_write_twice_the_entries() -> None:
    once = month_cost.of(month_cost.SMALL)
    twice = month_cost.of(replace(month_cost.SMALL, posts_per_day=1_000))
    assert twice.entries == pytest.approx(2 * once.entries)
    assert twice.pages == once.pages


def test_an_entry_costs_little_more_than_its_write_unit() -> None:
    service = month_cost.LARGE
    entries = service.posts_per_day * month_cost.DAYS * service.mean_followers
    units = entries / 1e6 * 0.625
    assert units < month_cost.of(service).entries < 1.05 * units
