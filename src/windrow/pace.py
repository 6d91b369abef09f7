"""How long to wait: between two looks at an idle outbox, and after a failure. Pure functions of time."""

from datetime import timedelta
from typing import Final

_EAGERNESS: Final = 20
_LONGEST_BACKOFF: Final = 30.0


def poll_delay(idle: float, shortest: timedelta, longest: timedelta) -> float:
    """Seconds until the next look, `idle` seconds after the last message: a twentieth of that, within bounds.

    `shortest` holds also where it is the longer one of the two.
    """
    return max(min(idle / _EAGERNESS, longest.total_seconds()), shortest.total_seconds())


def backoff(failures: int, first: timedelta) -> float:
    """Seconds to wait after so many failures in a row: doubled each time, up to half a minute."""
    return min(first.total_seconds() * 2.0 ** min(failures - 1, 16), _LONGEST_BACKOFF)
