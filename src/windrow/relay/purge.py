"""Garbage collection of the outbox: what every relay that reads it has published goes, in bulk and at leisure.

Never part of correctness: rows are found by position, whether published ones are still there or not. Positions are
taken from the database, where the relays save them: a relay whose positions Kafka has forgotten starts from those, and
so never behind what was deleted.

Invariant: a row goes only if it is visible in `lo` of every shard of every relay of the outbox. By one shard's
own position, rows of the others would be lost.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import reduce
from typing import Final

from windrow.capture.position import NOTHING, Position, Snapshot
from windrow.database.connections import Connection, connect, interruptible, settle_plans
from windrow.database.queries import query
from windrow.database.ring import ring_of
from windrow.database.tables import Tables
from windrow.election.lease import in_office
from windrow.errors import PositionForeign
from windrow.relay.deletion import Deletion
from windrow.relay.expiry import expire
from windrow.relay.truncation import truncate
from windrow.settings import Settings

_LEISURE: Final = 4
"""Rest so many times as long as it worked: deleting is several times as fast as publishing, and takes CPU from it."""


def published_by_all(relays: Iterable[tuple[int, list[str]]], database: str) -> Snapshot:
    """What is visible in every shard's `lo`; of each relay, its number of shards and their positions. Those of another
    cluster, or of whoever wrote them, say nothing here.
    """
    lows = []
    for shards, positions in relays:
        own = [low for each in positions if (low := _low(each, database))]
        if len(own) < shards:  # a shard that has not published yet
            return NOTHING
        lows += own
    return reduce(Snapshot.meet, lows) if lows else NOTHING


def _low(saved: str, database: str) -> Snapshot | None:
    with suppress(PositionForeign):
        position = Position.decode(saved)
        return position.lo if position.database == database else None
    return None


def saved_as_published(connection: Connection, tables: Tables) -> Snapshot:
    """What all relays of an outbox have published, by the positions that they saved; nothing where the database was set
    back behind them.
    """
    relays = connection.execute(tables.query("purge", "positions")).fetchall()
    database, horizon = connection.execute(query("purge", "horizon")).fetchone() or ("", "0")
    published = published_by_all(relays, database)
    return published if published.xmax <= int(horizon) else NOTHING


class Purger:
    """Purges one outbox, again and again; remembers where it left off. `rest` is called with seconds to wait. With a
    term, the number of one by lease, nothing goes any more once that is over.
    """

    def __init__(
        self, settings: Settings, rest: Callable[[float], object] = time.sleep, term: int | None = None
    ) -> None:
        self._settings, self._rest = settings, rest
        self._tables = Tables.of(settings)
        self._in_office = in_office(settings, term)
        self._deletion = Deletion(settings, self._in_office)

    def purge(self) -> Iterator[int]:
        """Purge step by step; yields the number of rows of each.

        Rows that are found by marks are deleted once they are published, or kept; without a retention, for good.
        """
        if self._settings.marks and not self._settings.purge.retention:
            return
        with interruptible(), connect(self._settings.data_source, f"windrow {self._settings.name} purge") as connection:
            settle_plans(connection)
            began = time.monotonic()
            for rows in self._steps(connection):
                yield rows
                self._rest(_LEISURE * (time.monotonic() - began))
                began = time.monotonic()

    def _steps(self, connection: Connection) -> Iterator[int]:
        if self._settings.marks:
            return expire(connection, self._settings, self._in_office)
        published = saved_as_published(connection, self._tables)
        if ring := ring_of(connection, self._tables):
            return truncate(connection, self._tables, ring, published, self._settings.purge.retention, self._in_office)
        return self._deletion.steps(connection, published)
