"""How long to wait: between two looks at an idle outbox, and after a failure. Pure functions of time."""

from datetime import timedelta
from typing import Final

_EAGERNESS: Final = 20
NOTICED_WITHIN: Final = timedelta(seconds=1)
"""Servers that were away are noticed so soon when they are back."""


def poll_delay(idle: float, shortest: timedelta, longest: timedelta) -> float:
    """Seconds until the next look, `idle` seconds after the last message: a twentieth of that, within bounds.

    `shortest` holds also where it is the longer one of the two.
    """
    return max(min(idle / _EAGERNESS, longest.total_seconds()), shortest.total_seconds())


def backoff(failures: int, first: timedelta, longest: timedelta = NOTICED_WITHIN) -> float:
    """Seconds to wait after so many failures in a row: doubled each time, up to the longest.

    `first` holds also where it is the longer one of the two.
    """
    return min(first.total_seconds() * 2.0 ** min(failures - 1, 16), max(first, longest).total_seconds())
