"""Tables on terminals of 80 and 40 columns: words stay whole, and nothing is cut off."""

import pytest
from rich.table import Table

from fanfold_cli import terminal

REF_ID = "0123456789abcdef" * 2


@pytest.fixture(params=[80, 40])
def width(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(terminal, "columns", lambda: request.param)
    return int(request.param)


def printed(capsys: pytest.CaptureFixture[str], table: Table, width: int) -> str:
    terminal.print_result(table)
    text = capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= width
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    return text


def deliveries() -> Table:
    table = Table(title="[deliveries]")
    for name in ("ref_id", "publisher"):
        table.add_column(name, overflow="fold")
    for name in ("state", "age", "delivered", "segments pending", "rounds"):
        table.add_column(name)
    row = (REF_ID, "publisher-01", "delivering", "12 min 5 s", "10,000 of 10,089")
    for _ in range(2):
        table.add_row(*row, "12 of 256", "3")
    return table


def test_a_listing_of_deliveries_breaks_ids_and_no_words(
    capsys: pytest.CaptureFixture[str], width: int
) -> None:
    text = printed(capsys, deliveries(), width)
    for word in ("delivering", "delivered", "segments", "pending", "rounds", "10,089", "256"):
        assert word in text
    if width == 40:
        lines = text.splitlines()
        # Each of the seven values of a row has a line, two have another; a line between the rows.
        assert len([line for line in lines if "0123" in line or "cdef" in line]) == 4
        assert "publisher         publisher-01" in " ".join(lines)
        assert len(lines) <= 2 * 9 + 1 + 2


def test_a_word_that_would_take_the_terminal_for_itself_is_folded(
    capsys: pytest.CaptureFixture[str], width: int
) -> None:
    table = Table("check", "result", "what it means")
    table.add_row("issuer", "warning", "https://" + "login." * 20 + "example.com is not known")
    text = printed(capsys, table, width)
    assert "known" in text
    assert "".join(c for c in text if c.isalnum()).count("login") == 20
