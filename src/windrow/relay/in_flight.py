"""What a shard has in flight: the records that it has read and not yet committed.

The driver cannot ask a running task, so the task tells the database: at most once a second, from a thread and on a
connection of their own, and not at all while nothing is in flight. Invariant: whatever fails here costs a figure, never
a record; the loop itself only notes which pages it has in hand.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from typing import Final

from windrow.database.connections import Connection, connect
from windrow.record import Record, Shard
from windrow.relay.registry import Flight, Registry
from windrow.settings import Settings

log = logging.getLogger(__name__)

_TELL_EVERY: Final = 1.0
_KEY: Final = attrgetter("key")


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
        keys = set(map(_KEY, chain.from_iterable(pages)))
        return Flight(sum(map(len, pages)), len(keys - {None}))


@contextmanager
def telling(settings: Settings, shard: Shard, in_flight: InFlight) -> Iterator[None]:
    """Meanwhile, tell the database what is in flight."""
    over = threading.Event()
    thread = threading.Thread(target=_tell, args=(settings, shard, in_flight, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _tell(settings: Settings, shard: Shard, in_flight: InFlight, over: threading.Event) -> None:
    registry, told, complained = Registry(settings), Flight(), False
    connection: Connection | None = None
    while not over.wait(_TELL_EVERY):
        now = in_flight.count()
        if not now.records and now == told:
            continue
        try:
            connection = connection or connect(settings.data_source, f"windrow {settings.name} {shard.index} figures")
            registry.tell_in_flight(connection, shard, now)
            told = now
        except Exception as error:  # noqa: BLE001 - whatever the driver raises, see above
            connection = None
            if not complained:
                complained = True
                log.warning("relay %s, shard %d: figures are missing: %s", settings.name, shard.index, error)
    if connection:
        connection.close()
