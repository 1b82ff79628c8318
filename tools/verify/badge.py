"""The README's badge: what all simulated runs so far add up to, as an SVG of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# In pixels. `textLength` makes the text as wide, whatever font the reader's machine has.
CHARACTER, SIDE, HEIGHT, BASELINE = 6.5, 8, 20, 14
LABEL = "simulated so far"


def svg(simulated: Mapping[str, Any]) -> str:
    """The badge that shows the member `simulated` of `docs/verified.json`."""
    text = (
        f"{simulated['seeds']:,} seeds, {simulated['faults']:,} faults, "
        f"{simulated['entries']:,} verified deliveries"
    )
    label_width, width = _width(LABEL), _width(LABEL) + _width(text)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" role="img">
<title>{LABEL}: {text}</title>
<rect width="{width}" height="{HEIGHT}" rx="3" fill="#24603a"/>
<rect width="{label_width}" height="{HEIGHT}" rx="3" fill="#30343c"/>
<g font-family="Verdana, 'DejaVu Sans', sans-serif" font-size="11" fill="#fff">
{_text(SIDE, LABEL)}
{_text(label_width + SIDE, text)}
</g>
</svg>
"""


def _length(text: str) -> int:
    return round(CHARACTER * len(text))


def _width(text: str) -> int:
    return _length(text) + 2 * SIDE


def _text(x: int, text: str) -> str:
    return f'<text x="{x}" y="{BASELINE}" textLength="{_length(text)}">{text}</text>'
