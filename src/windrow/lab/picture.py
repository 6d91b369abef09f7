"""The timeline of a run as SVG: what was committed and received each second, the faults, and who came to lead.

A strip has five minutes at most, so that an hour can be read as well as a minute; all strips have one scale.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

from windrow.lab.report import Incident, Run, recovery

_SECONDS: Final = 300
_WIDTH, _HEIGHT = 1400, 160
_LEFT, _TOP, _ROWS, _ROW = 20, 30, 9, 14
_STRIP: Final = _HEIGHT + 16 + _ROW * (_ROWS + 1)
_ENDS_THERE: Final = ' text-anchor="end"'
"""Names on the right would leave the picture."""
_STYLE: Final = """
text { font: 11px sans-serif; fill: #333 } .grid { stroke: #ddd } .fault { fill: #d33; opacity: .25 }
.outage { fill: #f90; opacity: .2 } .term { stroke: #36c; stroke-dasharray: 3 3 }
.written { fill: none; stroke: #2a2 } .received { fill: none; stroke: #22c; opacity: .7 }
"""


def timeline(run: Run) -> str:
    """One picture. Red: a fault, from its injection to its healing; orange: until the first message after it."""
    learnt = [each for each in run.operations if each.outcome == "ok" and each.ended < math.inf]
    written = [each.ended for each in learnt for _ in each.messages]
    received = [each.at for each in run.receipts]
    moments = [*written, *received, *(each.began for each in run.incidents)] or [0.0]
    start, end = math.floor(min(moments)), math.ceil(max(moments)) + 1
    counts = {"written": _per_second(written), "received": _per_second(received)}
    highest = max([1, *(most for each in counts.values() for most in each.values())])
    shown = [(place, each, recovery(run, each)) for place, each in enumerate(run.incidents)]
    begins = range(start, end, _SECONDS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_TOP + _STRIP * len(begins)}">',
        f"<style>{_STYLE}</style>",
        (
            f'<text x="{_LEFT}" y="18">seed {run.seed}: messages a second (committed green, received blue), up to '
            f"{highest:,}; faults (red) until healed, then (orange) until messages came again; terms (dashed)</text>"
        ),
    ]
    for place, begin in enumerate(begins):
        strip = _Strip(start, begin, min(end, begin + _SECONDS), min(end - start, _SECONDS), _TOP + _STRIP * place)
        parts += strip.seconds()
        for each in shown:
            parts += strip.incident(*each)
        parts += strip.terms(run.terms)
        parts += (strip.line(name, each, highest) for name, each in counts.items())
    return "\n".join([*parts, "</svg>"])


def page(run: Run) -> str:
    """The picture as a page of its own."""
    title = f"windrow torture, seed {run.seed}"
    head = f'<meta charset="utf-8"><title>{title}</title>'
    return f'<!doctype html>\n<html lang="en">{head}<h1>{title}</h1>\n{timeline(run)}</html>\n'


@dataclass(frozen=True, slots=True)
class _Strip:
    """A part of the run, from `begin` to `end`, drawn from `top` on."""

    start: int
    """Of the run."""
    begin: int
    end: int
    seconds_across: int
    top: int

    @property
    def _bottom(self) -> int:
        return self.top + _HEIGHT

    def _x(self, moment: float) -> float:
        within = min(max(moment, self.begin), self.end)
        return _LEFT + (within - self.begin) * (_WIDTH - 2 * _LEFT) / self.seconds_across

    def seconds(self) -> Iterator[str]:
        for second in range(self.begin, self.end, max(10, self.seconds_across // 20)):
            x = self._x(second)
            yield (
                f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{self.top}" y2="{self._bottom}"/>'
                f'<text x="{x:.1f}" y="{self._bottom + 12}">{second - self.start} s</text>'
            )

    def incident(self, place: int, each: Incident, costs: float | None) -> Iterator[str]:
        """As much of it as lies here; its name where it begins."""
        until = math.inf if costs is None else max(each.since + each.detection + costs, each.healed)
        if until < self.begin or each.began >= self.end:
            return
        began, healed = self._x(each.began), self._x(each.healed)
        row = self._bottom + 16 + _ROW * (1 + place % _ROWS)
        begins_here = each.began >= self.begin
        yield (
            f'<rect class="outage" x="{healed:.1f}" y="{self.top}" width="{self._x(until) - healed:.1f}" '
            f'height="{_HEIGHT}"/><rect class="fault" x="{began:.1f}" y="{self.top}" '
            f'width="{max(1.0, healed - began):.1f}" height="{row - self.top if begins_here else _HEIGHT}"/>'
        )
        if begins_here:
            label = f"{each.name} ({'not recovered' if costs is None else f'{costs:.1f} s'})"
            last_third = began > _WIDTH * 2 / 3
            yield f'<text x="{began:.1f}" y="{row}"{_ENDS_THERE if last_third else ""}>{escape(label)}</text>'

    def terms(self, terms: Iterable[tuple[float, str]]) -> Iterator[str]:
        for at, name in terms:
            if self.begin <= at < self.end:
                yield (
                    f'<line class="term" x1="{self._x(at):.1f}" x2="{self._x(at):.1f}" y1="{self.top}" '
                    f'y2="{self._bottom}"><title>{escape(name)} leads</title></line>'
                )

    def line(self, name: str, counts: Mapping[int, int], highest: int) -> str:
        points = " ".join(
            # By the root, so that a burst leaves the rest to be seen.
            f"{self._x(second + 0.5):.1f},{self._bottom - _HEIGHT * math.sqrt(counts.get(second, 0) / highest):.1f}"
            for second in range(self.begin, self.end)
        )
        return f'<polyline class="{name}" points="{points}"/>'


def _per_second(moments: Iterable[float]) -> Counter[int]:
    return Counter(math.floor(each) for each in moments)
