"""Durations, prices, and tables of them, as people read them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

# Smaller amounts are shown as less than this.
LEAST_DOLLARS = 0.00001


def duration(seconds: float) -> str:
    """Such as `6.6 s`, `5 min 0 s`, `1 h 3 min`."""
    if round(seconds, 1) < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def dollars(amount: float) -> str:
    """Cents, or the first two digits that are not zero: `$6.28`, `$0.000068`."""
    if amount < LEAST_DOLLARS:
        return f"<${LEAST_DOLLARS:.5f}"
    digits = max(2, 1 - math.floor(math.log10(amount)))
    return f"${amount:,.{digits}f}"


def number_table(*columns: str) -> Table:
    """Numbers are never cut: without its last digits, a number is wrong."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, justify="left" if column == "lane" else "right", no_wrap=True)
    return table
