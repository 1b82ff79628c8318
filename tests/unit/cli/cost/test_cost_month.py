"""What a month costs: the figures of docs/cost.md and README.md are those of the code."""

from pathlib import Path

from fanfold_cli.cost import month

ROOT = Path(__file__).parents[4]


def test_the_page_shows_the_table_of_the_code() -> None:
    assert month.table() in (ROOT / "docs" / "cost.md").read_text()


def test_the_page_says_what_a_history_adds() -> None:
    small, *more = map(month.history, (month.SMALL, month.MEDIUM, month.LARGE))
    added = f"add ${small:.2f}, ${more[0]:.0f} and ${more[1]:.0f}"
    assert added in (ROOT / "docs" / "cost.md").read_text()


def test_the_readme_shows_the_totals_of_the_table() -> None:
    totals = month.table().splitlines()[-1].replace("*", "").removeprefix("| a month")
    assert totals in (ROOT / "README.md").read_text()
