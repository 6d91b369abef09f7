"""What a shard has in flight, the records that it has read and not yet committed, and what it has counted.

The driver cannot ask a running task, so the task tells the database: at most once a second, from a thread and on a
connection of their own, and not at all while nothing is in flight and nothing was counted. Invariant: whatever fails
here costs a figure, never a record; the loop itself only notes which pages it has in hand.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

from windrow.beside import Beside
from windrow.columns import keys_of
from windrow.database.connections import Connection, connect
from windrow.record import Record, Shard
from windrow.relay.registry import Flight, Registry
from windrow.relay.tally import Tally
from windrow.settings import Settings

log = logging.getLogger(__name__)

_TELL_EVERY: Final = 1.0


class InFlight:
    """The pages that a shard has in hand, oldest first."""

    def __init__(self) -> None:
        self._pages: deque[Sequence[Record]] = deque()

    def read(self, page: Sequence[Record]) -> None:
        self._pages.append(page)

    def committed(self) -> None:
        """The oldest page is in Kafka."""
        self._pages.popleft()

    def dropped(self) -> None:
        """All of them will be read again."""
        self._pages.clear()

    def count(self) -> Flight:
        """For any thread. Records without a key have none to count."""
        pages = self._pages.copy()
        keys = set[bytes | None]().union(*map(keys_of, pages))
        return Flight(sum(map(len, pages)), len(keys - {None}))


@contextmanager
def telling(settings: Settings, shard: Shard, in_flight: InFlight, tally: Tally) -> Iterator[None]:
    """Meanwhile, and once more at the end, tell the database what is in flight and what was counted."""
    over, teller = threading.Event(), _Teller(settings, shard, in_flight, tally)
    with Beside(f"teller of {settings.name} {shard.index}", partial(teller.run, over), over=over):
        yield


class _Teller:
    """Tells of one shard, on a connection that it opens with the first word."""

    def __init__(self, settings: Settings, shard: Shard, in_flight: InFlight, tally: Tally) -> None:
        self._settings, self._shard, self._in_flight, self._tally = settings, shard, in_flight, tally
        self._registry, self._told = Registry(settings), Flight()
        self._connection: Connection | None = None
        self._complained = False

    def run(self, over: threading.Event) -> None:
        while not over.wait(_TELL_EVERY):
            self._tell()
        if self._connection:
            self._tell()
        if self._connection:
            self._connection.close()

    def _tell(self) -> None:
        flight, since = self._in_flight.count(), self._tally.take()
        if not (flight.records or since) and flight == self._told:
            return
        try:
            self._connection = self._connection or self._connect()
            self._registry.tell(self._connection, self._shard, flight, since)
            self._told = flight
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, see above
            self._connection = None
            self._tally.give_back(since)
            if not self._complained:
                self._complained = True
                log.warning(
                    "relay %s, shard %d: figures are missing: %s", self._settings.name, self._shard.index, error
                )

    def _connect(self) -> Connection:
        return connect(self._settings.data_source, f"windrow {self._settings.name} {self._shard.index} figures")
