"""Purge of a plain outbox: delete the rows, in chunks.

Deleted rows stay in the indexes until no transaction is older than their end; somebody may keep one open for hours.
So what was deleted must not be looked at again: each purge goes by what was published since the last one.

Invariant: of the rows visible in `done`, none is left. Those of transactions that were open then, or were still within
their retention, are not visible in it.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from psycopg.sql import Composable

from windrow.capture.position import NOTHING, Snapshot
from windrow.database.adoption import layout_of
from windrow.database.connections import Connection
from windrow.database.tables import Tables
from windrow.settings import Settings

_MOST_CHUNKS: Final = 16


class Look(NamedTuple):
    """Rows that were published since the last purge: as many as asked for of either kind, or all."""

    places: list[str]
    """Those that may go, a chunk each, as the database writes arrays of places."""
    kept: set[int]
    """Transactions with rows within their retention."""
    full: bool
    """Whether there may be more."""


def purged(done: Snapshot, published: Snapshot, look: Look) -> Snapshot:
    """What is purged once the look's rows are gone. Rows that begin after `done` were looked at in order."""
    stopped_by = [tx for tx in look.kept if tx >= done.xmax]
    upto = min(stopped_by, default=done.xmax if look.full else published.xmax)
    left = {*published.xip, *look.kept, *(done.xip if look.full else ())}
    xip = tuple(sorted(tx for tx in left if tx < upto))
    return Snapshot(min(xip, default=upto), upto, xip)


class Deletion:
    """Deletes what was published since the last time."""

    def __init__(self, settings: Settings, in_office: Composable) -> None:
        self._relay, self._settings, self._in_office = settings, settings.purge, in_office
        self._tables = Tables.of(settings)
        self._done = NOTHING
        self._fragments: dict[str, Composable] = {}

    def steps(self, connection: Connection, published: Snapshot) -> Iterator[int]:
        """Delete chunk by chunk; yields the number of rows of each."""
        chunks = 1
        if not self._fragments:
            layout = layout_of(connection, self._relay, "snapshot")
            self._fragments = {**layout.fragments(), "in_office": self._in_office}
        while True:
            look = self._look(connection, published, chunks)
            for places in look.places:
                yield self._execute(connection, "delete", published=str(published), places=places).rowcount
            done = purged(self._done, published, look)
            over, self._done = not look.full or done.xmax > self._done.xmax, done
            if over:
                return
            # What was deleted is passed over once more by the next look: so the looks get larger.
            chunks = min(chunks * 2, _MOST_CHUNKS)

    def _look(self, connection: Connection, published: Snapshot, chunks: int) -> Look:
        rows = chunks * self._settings.chunk
        bundles = self._execute(
            connection,
            "due",
            done=str(self._done),
            published=str(published),
            rows=rows,
            chunk=self._settings.chunk,
        ).fetchall()
        places = [bundle[0] for bundle in bundles if bundle[0]]
        kept = {int(tx) for bundle in bundles for tx in bundle[1] or ()}
        full = any(sum(bundle[kind] for bundle in bundles) == rows for kind in (2, 3))
        return Look(places, kept, full)

    def _execute(self, connection: Connection, name: str, **parameters: object) -> Any:
        return connection.execute(
            self._tables.query("purge", name, **self._fragments),
            {"retention": self._settings.retention, **parameters},
        )
