"""What a month costs: the figures of README.md are those of the code."""

from pathlib import Path

from fanfold_cli import month_cost

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_shows_the_table_of_the_code() -> None:
    assert month_cost.table() in README.read_text()
