"""Garbage collection of the outbox: delete what every relay that reads it has published, in bulk.

Never part of correctness: rows are found by position, whether published ones are still there or not. Positions are
taken from the database, where the relays save them: a relay whose positions Kafka has forgotten starts from those, and
so never behind what was deleted.

Invariant: a row is deleted only if it is visible in `lo` of every shard of every relay of the outbox. By one shard's
own position, rows of the others would be lost.
"""

import time
from collections.abc import Iterable, Iterator
from functools import reduce

from psycopg.sql import Composed

from windrow.capture.position import NOTHING, Position, Snapshot
from windrow.database.layouts import layout_of
from windrow.database.postgres import Connection, Tables, connect, interruptible
from windrow.database.queries import query
from windrow.settings import Settings


def published_by_all(relays: Iterable[tuple[int, list[str]]]) -> Snapshot:
    """What is visible in every shard's `lo`; of each relay, its number of shards and their positions."""
    lows = []
    for shards, positions in relays:
        lows += [Position.decode(each).lo for each in positions]
        if len(positions) < shards:  # a shard that has not published yet
            return NOTHING
    return reduce(Snapshot.meet, lows) if lows else NOTHING


class Purger:
    """Purges one outbox, again and again; remembers where it left off."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tables = Tables.beside(settings.outbox_table)
        self._since = 0
        """No row of an older transaction is left."""

    def purge(self) -> Iterator[int]:
        """Delete chunk by chunk; yields the number of rows of each, and rests as long as it took."""
        with interruptible(), connect(self._settings.data_source, f"windrow {self._settings.name} purge") as connection:
            published = published_by_all(
                row[1:] for row in connection.execute(self._tables.fill(query("purge", "positions"))).fetchall()
            )
            statement = self._tables.fill(query("purge", "delete"), **layout_of(connection, self._tables).fragments())
            while True:
                began = time.monotonic()
                deleted = self._delete(connection, statement, published)
                yield deleted
                if deleted < self._settings.purge.chunk:
                    break
                time.sleep(time.monotonic() - began)
        if not self._settings.purge.retention:
            self._since = published.xmin

    def _delete(self, connection: Connection, statement: Composed, published: Snapshot) -> int:
        parameters = {
            "since": str(self._since),
            "published": str(published),
            "chunk": self._settings.purge.chunk,
            "retention": self._settings.purge.retention,
        }
        return connection.execute(statement, parameters).rowcount
