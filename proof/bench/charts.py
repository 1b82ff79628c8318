"""Charts as SVG: the same numbers give the same bytes."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from proof.bench.figures import Bars, Chart, Lines

WIDTH_INCHES = 8.0
BAR_INCHES = 0.45
LINES_INCHES = 4.5


def draw(chart: Chart, path: Path) -> None:
    # The salt keeps the ids in the file the same; text stays text, which keeps the file small.
    with mpl.rc_context({"svg.hashsalt": "fanfold", "svg.fonttype": "none"}):
        tall = LINES_INCHES if isinstance(chart, Lines) else 1.4 + BAR_INCHES * len(chart.bars)
        figure = Figure(figsize=(WIDTH_INCHES, tall), layout="constrained")
        axes = figure.subplots()
        axes.set_title(chart.title, loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        if isinstance(chart, Bars):
            _bars(axes, chart)
        else:
            _lines(axes, chart)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _bars(axes: Axes, chart: Bars) -> None:
    names = list(chart.bars)
    drawn = axes.barh(names, [chart.bars[name] for name in names], color="#3b6ea5")
    axes.bar_label(drawn, [f"{chart.bars[name]:,.4g}" for name in names], padding=4)
    axes.invert_yaxis()  # the first one on top
    axes.set_xlabel(chart.unit)
    axes.margins(x=0.15)


def _lines(axes: Axes, chart: Lines) -> None:
    for name, points in chart.lines.items():
        xs, ys = zip(*points, strict=True)
        axes.plot(
            xs,
            ys,
            label=name,
            marker="" if chart.steps else "o",
            drawstyle="steps-post" if chart.steps else "default",
        )
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    axes.grid(alpha=0.3)
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if len(chart.lines) > 1:
        axes.legend(frameon=False)
