"""Tables on a terminal of 80 columns: words stay whole, and nothing is cut off."""

import pytest
from rich.table import Table

from fanfold_cli import console

COLUMNS = 80


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "columns", lambda: COLUMNS)


def printed(capsys: pytest.CaptureFixture[str], table: Table) -> str:
    console.print_result(table)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    return text


def test_a_listing_of_deliveries_breaks_ids_and_no_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table()
    for name in ("ref_id", "publisher"):
        table.add_column(name, overflow="fold")
    for name in ("state", "age", "delivered", "segments pending", "rounds"):
        table.add_column(name)
    row = ("0123456789abcdef" * 2, "publisher-01", "delivering", "12 min 5 s", "10,000 of 10,089")
    table.add_row(*row, "12 of 256", "3")
    text = printed(capsys, table)
    for word in ("delivering", "delivered", "segments", "pending", "rounds", "10,089", "256"):
        assert word in text


def test_a_word_that_would_take_the_terminal_for_itself_is_folded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = Table("check", "result", "what it means")
    table.add_row("issuer", "warning", "https://" + "login." * 20 + "example.com is not known")
    text = printed(capsys, table)
    assert "known" in text
    assert "".join(c for c in text if c.isalnum()).count("login") == 20
