"""The figures as SVG: a panel for each, bars by contender, on a scale of powers of ten."""

import math
from collections.abc import Mapping
from html import escape
from typing import Final

from benchmarks.peers.contenders import OURS
from benchmarks.peers.floor import FLOOR
from benchmarks.peers.report import Figure, Figures

_WIDTH, _BAR, _NAMES, _HEAD = 840, 20, 210, 34
_ACROSS: Final = _WIDTH - _NAMES - 220
_STYLE: Final = """
text { font: 12px sans-serif; fill: #333 } .title { font-weight: bold } .ours { fill: #2a7 } .peer { fill: #89a }
.floor { fill: #ccc } .spread { stroke: #333 } .backdrop { fill: #fff }
"""


def plot(measured: Figures) -> str:
    """One picture of all loads; a longer bar is more, be it a rate or a latency, and ten times more at each step."""
    parts, top = [], 10
    for load, keys in measured.items():
        for key, whose in keys.items():
            parts.append(_panel(f"{load}: {key.replace('_per_s', '/s').replace('_', ', ')}", whose, top))
            top += _HEAD + _BAR * len(whose)
    size = f'width="{_WIDTH}" height="{top}" viewBox="0 0 {_WIDTH} {top}"'
    backdrop = f'<rect class="backdrop" width="{_WIDTH}" height="{top}"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{_STYLE}</style>{backdrop}{"".join(parts)}</svg>\n'


def _panel(title: str, whose: Mapping[str, Figure], top: int) -> str:
    lowest = 10.0 ** math.floor(math.log10(min(figure.lowest for figure in whose.values()) * 0.99))
    decades = max(1.0, math.log10(max(figure.highest for figure in whose.values()) / lowest))

    def x(number: float) -> float:
        return _NAMES + _ACROSS * math.log10(number / lowest) / decades

    lines = [f'<text class="title" x="10" y="{top + 14}">{escape(title)}</text>']
    for place, (who, figure) in enumerate(whose.items()):
        y = top + _HEAD - 12 + place * _BAR
        middle = y + (_BAR - 5) / 2
        lines.append(
            f'<text x="{_NAMES - 8}" y="{y + 12}" text-anchor="end">{escape(who)}</text>'
            f'<rect class="{_kind(who)}" x="{_NAMES}" y="{y}" '
            f'width="{x(figure.median) - _NAMES:.1f}" height="{_BAR - 5}"/>'
            f'<line class="spread" x1="{x(figure.lowest):.1f}" x2="{x(figure.highest):.1f}" '
            f'y1="{middle}" y2="{middle}"/>'
            f'<text x="{x(figure.highest) + 6:.1f}" y="{y + 12}">{escape(str(figure))}</text>'
        )
    return "".join(lines)


def _kind(who: str) -> str:
    if who == FLOOR:
        return "floor"
    return "ours" if who in OURS else "peer"
