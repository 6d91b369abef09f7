"""Clocks: the database's against this machine's. Pure."""

from collections.abc import Iterator
from typing import Final

from windrow.doctor.finding import Finding, ok, warning

_SKEW: Final = 2.0


def judge_clock(skew: float, uncertain: float) -> Iterator[Finding]:
    """By how many seconds the database's clock is ahead of ours, give or take."""
    if abs(skew) - uncertain > _SKEW:
        yield warning(
            "clock",
            f"the database's clock and this machine's differ by {abs(skew):.1f} s; ages and purge.retention go by the"
            " database's",
            "let both follow a time server",
        )
    else:
        yield ok("clock", "the database's clock and this machine's agree")
