"""The timeline of a run as SVG: what was committed and received each second, the faults, and who came to lead."""

import math
from collections import Counter
from collections.abc import Iterable
from html import escape
from typing import Final

from windrow.lab.report import Incident, Run, recovery

_WIDTH, _HEIGHT = 1400, 360
_LEFT, _TOP, _ROWS = 60, 30, 14
_STYLE: Final = """
text { font: 11px sans-serif; fill: #333 } .grid { stroke: #ddd } .fault { fill: #d33; opacity: .25 }
.outage { fill: #f90; opacity: .2 } .term { stroke: #36c; stroke-dasharray: 3 3 }
.written { fill: none; stroke: #2a2 } .received { fill: none; stroke: #22c; opacity: .7 }
"""


def timeline(run: Run) -> str:
    """One picture. Red: a fault, from its injection to its healing; orange: until the first message after it."""
    written = [each.ended for each in run.operations if each.outcome == "ok" for _ in each.messages]
    received = [each.at for each in run.receipts]
    moments = [*written, *received, *(each.began for each in run.incidents)] or [0.0]
    start, end = math.floor(min(moments)), math.ceil(max(moments)) + 1
    highest = max([*_per_second(written).values(), *_per_second(received).values(), 1])
    across = (_WIDTH - _LEFT - 10) / (end - start)

    def x(moment: float) -> float:
        return _LEFT + (moment - start) * across

    def y(count: int) -> float:
        # By the root, so that a burst leaves the rest to be seen.
        return _TOP + _HEIGHT * (1 - math.sqrt(count / highest))

    def line(name: str, moments: Iterable[float]) -> str:
        counts = _per_second(moments)
        points = " ".join(f"{x(second + 0.5):.1f},{y(counts[second]):.1f}" for second in range(start, end))
        return f'<polyline class="{name}" points="{points}"/>'

    def incident(place: int, each: Incident) -> str:
        row = _TOP + _HEIGHT + 16 + (place % _ROWS) * 14
        costs = recovery(run, each)
        until = end if costs is None else max(each.since + each.detection + costs, each.healed)
        label = f"{each.name} ({'not recovered' if costs is None else f'{costs:.1f} s'})"
        return (
            f'<rect class="outage" x="{x(each.healed):.1f}" y="{_TOP}" width="{(until - each.healed) * across:.1f}" '
            f'height="{_HEIGHT}"/><rect class="fault" x="{x(each.began):.1f}" y="{_TOP}" '
            f'width="{max(1.0, (each.healed - each.began) * across):.1f}" height="{row - _TOP}"/>'
            f'<text x="{x(each.began):.1f}" y="{row}">{escape(label)}</text>'
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_TOP + _HEIGHT + 16 + 14 * _ROWS}">',
        f"<style>{_STYLE}</style>",
        (
            f'<text x="{_LEFT}" y="18">seed {run.seed}: messages a second (committed green, received blue), up to '
            f"{highest:,}; faults (red) until healed, then (orange) until messages came again; terms (dashed)</text>"
        ),
        *(
            f'<line class="grid" x1="{x(start + second):.1f}" x2="{x(start + second):.1f}" y1="{_TOP}" '
            f'y2="{_TOP + _HEIGHT}"/><text x="{x(start + second):.1f}" y="{_TOP + _HEIGHT + 12}">{second} s</text>'
            for second in range(0, end - start, max(10, (end - start) // 20))
        ),
        *(incident(place, each) for place, each in enumerate(run.incidents)),
        *(
            f'<line class="term" x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{_TOP}" y2="{_TOP + _HEIGHT}">'
            f"<title>{escape(name)} leads</title></line>"
            for at, name in run.terms
            if start <= at <= end
        ),
        line("written", written),
        line("received", received),
        "</svg>",
    ]
    return "\n".join(parts)


def _per_second(moments: Iterable[float]) -> Counter[int]:
    return Counter(math.floor(each) for each in moments)
