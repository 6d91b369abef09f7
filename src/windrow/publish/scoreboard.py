"""Which records of a page may be sent now: the scoreboard of mark-purge/reset. Pure: no I/O, no clock.

A record is waiting, then in flight, then acknowledged, then purged; or it fails. It counts as in flight until it is
purged, that is, deleted from the outbox: whoever takes over publishes anew what is still there, so R1 may be sent only
once R0 is not. Otherwise a crash between R0's acknowledgement and its purge would give R0, R1, R0, R1.

Invariants:
- Of each key (topic and key) at most one record is in flight. Records without a key have no order to keep.
- At most `limit` records are in flight in all.
- After a failure nothing new is sent. What is in flight is waited for, and what was acknowledged is purged; the rest is
  given up, for whoever marks it anew.

A record is looked at twice at most, however long the page and whatever its keys.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from windrow.record import Record

_Key = tuple[str, bytes]


class Scoreboard:
    """The records of one page, in the order of their ids, no id twice."""

    def __init__(self, records: Iterable[Record], limit: int) -> None:
        self._limit = limit
        self._waiting = deque(records)
        self._freed: deque[Record] = deque()
        """The first of those that waited behind a barrier, for each that was lowered since; it is up again for them."""
        self._barriers: set[_Key] = set()
        self._behind: dict[_Key, deque[Record]] = {}
        self._in_flight: dict[int, Record] = {}
        self._acknowledged: list[int] = []
        self._halted = False

    @property
    def busy(self) -> bool:
        """Whether anything is still to be sent, answered or purged."""
        return bool(self._in_flight) or (not self._halted and bool(self._freed or self._waiting))

    def ready(self) -> Iterator[Record]:
        """The records that may be sent now. Each is in flight from the moment that it is handed out."""
        while not self._halted and len(self._in_flight) < self._limit and (record := self._next()):
            self._in_flight[record.id] = record
            yield record

    def acknowledged(self, number: int) -> None:
        self._acknowledged.append(number)

    def failed(self, number: int) -> None:
        """It was not sent, or refused, or nobody knows; its key's barrier stays up."""
        del self._in_flight[number]
        self._halted = True

    def to_purge(self) -> list[int]:
        """The ids that were acknowledged since the last call."""
        numbers, self._acknowledged = self._acknowledged, []
        return numbers

    def purged(self, numbers: Iterable[int]) -> None:
        """They are not in the outbox any more: the next of their keys may follow."""
        for number in numbers:
            record = self._in_flight.pop(number)
            if record.key is not None:
                self._lower((record.topic, record.key))

    def _next(self) -> Record | None:
        if self._freed:
            return self._freed.popleft()
        while self._waiting:
            record = self._waiting.popleft()
            if record.key is None:
                return record
            key = (record.topic, record.key)
            if key not in self._barriers:
                self._barriers.add(key)
                return record
            if key in self._behind:
                self._behind[key].append(record)
            else:
                self._behind[key] = deque((record,))
        return None

    def _lower(self, key: _Key) -> None:
        behind = self._behind.get(key)
        if behind is None:
            self._barriers.remove(key)
            return
        self._freed.append(behind.popleft())
        if not behind:
            del self._behind[key]
