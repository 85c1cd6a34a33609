"""A picture with bars, as SVG, that follows the reader's light or dark mode."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH, LABELS, VALUES, ROW, TOP = 860, 190, 110, 26, 52

STYLE = """
  .back { fill: #ffffff } text { font: 13px system-ui, sans-serif; fill: #24292f } .title { font-weight: bold }
  .ours { fill: #4f46e5 } .other { fill: #d9a066 } .grid { stroke: #d0d7de }
  @media (prefers-color-scheme: dark) {
    .back { fill: #0d1117 } text { fill: #e6edf3 }
    .ours { fill: #8b8cf8 } .other { fill: #b98546 } .grid { stroke: #30363d }
  }
"""


class Bar(NamedTuple):
    label: str
    value: float
    text: str
    ours: bool


def draw(title: str, bars: Sequence[Bar]) -> str:
    """Return the picture. The scale is logarithmic, from the power of ten below the least value."""
    least = 10.0 ** math.floor(math.log10(min(bar.value for bar in bars)) - 0.01)
    powers = math.ceil(math.log10(max(bar.value for bar in bars) / least))
    unit = (WIDTH - LABELS - VALUES) / powers
    height = TOP + ROW * len(bars) + 10
    parts = [f'<rect class="back" width="{WIDTH}" height="{height}" rx="6"/>']
    parts.append(f'<text class="title" x="12" y="22">{escape(title)}</text>')
    for power in range(powers + 1):
        x = LABELS + unit * power
        parts.append(f'<line class="grid" x1="{x:.0f}" x2="{x:.0f}" y1="{TOP - 6}" y2="{height - 10}"/>')
        parts.append(f'<text x="{x:.0f}" y="{TOP - 10}" text-anchor="middle">{_mark(least * 10**power)}</text>')
    for number, bar in enumerate(bars):
        y, length = TOP + ROW * number, unit * math.log10(bar.value / least)
        parts.append(f'<text x="{LABELS - 8}" y="{y + 17}" text-anchor="end">{escape(bar.label)}</text>')
        colour = "ours" if bar.ours else "other"
        parts.append(f'<rect class="{colour}" x="{LABELS}" y="{y + 3}" width="{length:.0f}" height="{ROW - 6}"/>')
        parts.append(f'<text x="{LABELS + length + 6:.0f}" y="{y + 17}">{escape(bar.text)}</text>')
    size = f'width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}"'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">\n'
        f"<style>{STYLE}</style>\n{body}\n</svg>\n"
    )


def _mark(value: float) -> str:
    """
    >>> _mark(1_000_000.0), _mark(0.1)
    ('1,000,000', '0.1')
    """
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"
