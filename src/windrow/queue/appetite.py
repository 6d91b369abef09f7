"""How many messages a consumer should lease next. Pure: time and counts come in.

A consumer holds ready what its handlers finish in half a second, and no more, so that a slow one does not sit on
messages while others are idle. A batch that is taken at once doubles the next, up to the buffer's capacity.
"""

from typing import Final

_AHEAD: Final = 0.5
"""Seconds of work that are held ready."""
_SMOOTH: Final = 1.0
"""Seconds over which the rate is smoothed: one message alone does not make another be held ready."""


class Appetite:
    """What handlers finish, and what follows."""

    def __init__(self, capacity: int, most: int) -> None:
        self._capacity = capacity
        self._most = min(capacity, most)
        self._rate = 0.0
        self._over = 0
        self._at = 0.0
        self._given = 0
        self._given_at = 0.0

    def wanted(self, now: float, over: int, buffered: int, waiting: int) -> int:
        """How many to lease, of which 0 is none yet, where so many messages are over in all, so many are buffered, and
        so many handlers wait.
        """
        if (elapsed := now - self._at) > 0:
            share = min(1.0, elapsed / _SMOOTH)
            self._rate += share * ((over - self._over) / elapsed - self._rate)
            self._over, self._at = over, now
        ready = min(self._capacity, self._rate * _AHEAD)
        if not buffered and waiting:
            soon = 2 * self._given if now - self._given_at < _AHEAD else 0
            return max(1, min(self._most, max(waiting, soon, int(ready))))
        if buffered > ready / 2:
            return 0
        return min(self._most, int(ready) - buffered)

    def gave(self, now: float, count: int) -> None:
        """So many were put into the buffer."""
        self._given, self._given_at = count, now
