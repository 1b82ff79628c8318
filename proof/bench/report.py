"""How a result is shown (a table, JSON lines) and kept (last.jsonl, last.svg, the README)."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from proof.bench.charts import draw
from proof.bench.figures import BenchResult, Figure

# Wide enough for the longest line; a pipe has no width of its own.
PIPE_COLUMNS = 160
DATA = "last.jsonl"
CHART = "last.svg"
# `--save` writes what is between these two lines of a README.
BEGIN = "<!-- last result: written by --save -->"
END = "<!-- end of last result -->"


def shown(number: float) -> str:
    """A number for people to read, of three significant digits."""
    if abs(number) >= 100 or number == int(number):
        return f"{number:,.0f}"
    if 0.9 < number < 1.1:  # a ratio near 1, of which the difference from 1 counts
        return f"{number:.5g}"
    return f"{number:.3g}"


def wanted(figure: Figure) -> str:
    bound = "at least" if figure.better == "higher" else "at most"
    return f"{bound} {shown(figure.target)} {figure.unit}"


def json_lines(results: Iterable[BenchResult]) -> Iterator[str]:
    for result in results:
        for figure in result.figures:
            yield json.dumps(figure.as_json())


def print_table(results: Iterable[BenchResult], console: Console | None = None) -> None:
    """Print every figure with its target, and the rows that explain it."""
    console = console or Console()
    if not console.is_terminal:
        console.width = PIPE_COLUMNS
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("figure")
    table.add_column("value", justify="right")
    for name in ("target", "", "against"):
        table.add_column(name)
    for result in results:
        for figure in result.figures:
            met = "[green]met[/]" if figure.met else "[red]not met[/]"
            value = f"{shown(figure.value)} {figure.unit}"
            table.add_row(figure.name, value, wanted(figure), met, figure.against)
        for row in result.rows:
            table.add_row(f"  {row.name}", f"{shown(row.value)} {row.unit}", "", "", row.note)
        for what, how in result.setting.items():
            table.add_row(f"  [dim]{what}[/]", "", "", "", f"[dim]{how}[/]")
        table.add_section()
    console.print(table)


def machine() -> dict[str, str]:
    return {
        "cpu": f"{os.cpu_count()} x {platform.machine()}",
        "python": platform.python_version(),
        "system": platform.system(),
    }


def save(result: BenchResult, folder: Path) -> None:
    """Keep the figures as data, and with the rest of the result as a chart and in the README."""
    (folder / DATA).write_text("".join(f"{line}\n" for line in json_lines([result])))
    if result.chart:
        draw(result.chart, folder / CHART)
    readme = folder / "README.md"
    if readme.exists():
        readme.write_text(with_result(readme.read_text(), result))


def with_result(readme: str, result: BenchResult) -> str:
    """The README with this result between its marks; raises `ValueError` if it has no marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"A bench's README needs the lines '{BEGIN}' and '{END}'.")
    return f"{before}{BEGIN}\n{_as_markdown(result)}\n{END}{after}"


def _as_markdown(result: BenchResult) -> str:
    """A page's part: its rows lack the notes that a run prints."""
    lines = ["| figure | value | target | | against |", "| --- | ---: | --- | --- | --- |"]
    for figure in result.figures:
        met = "met" if figure.met else "**not met**"
        value = f"**{shown(figure.value)} {figure.unit}**"
        lines.append(f"| `{figure.name}` | {value} | {wanted(figure)} | {met} | {figure.against} |")
    lines += ["", "| also measured | value |", "| --- | ---: |"]
    lines += [f"| {row.name} | {shown(row.value)} {row.unit} |" for row in result.rows]
    setting = {**machine(), **result.setting}
    lines += ["", "; ".join(f"{what}: {how}" for what, how in setting.items()) + "."]
    lines += ["", f"As data: [{DATA}]({DATA})."]
    if result.chart:
        lines += ["", f"![{result.chart.title}]({CHART})"]
    return "\n".join(lines)
