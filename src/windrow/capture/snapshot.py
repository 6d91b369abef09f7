"""The `snapshot` capture: find new rows by which transactions a snapshot sees, without writing to the database.

A row is new if its transaction is not visible in `lo`. Caught up, one statement returns the new rows and the snapshot
`hi` that it saw them in; once they are published, `lo = hi`. If they are too many for one page, `hi` is kept, and the
rows between `lo` and `hi` are paged by id. No row is skipped, in whatever order transactions commit: a row that a page
did not see because its transaction was open is not visible in `hi` either, so it is new again under the next `lo`.

Rows are ordered by id, not by transaction: a transaction may get its number early, wait on a lock, and write later.
"""

from dataclasses import replace
from functools import cached_property
from typing import Any, Final
from uuid import UUID

import adbc_driver_postgresql.dbapi as adbc
from psycopg.sql import SQL, Composable, Composed, Literal

from windrow.capture.position import MAX_SNAPSHOT, NOTHING, Position, Snapshot
from windrow.capture.protocol import Page
from windrow.capture.shards import predicate
from windrow.database.postgres import Tables, connect, connection_string, interruptible
from windrow.database.queries import query
from windrow.errors import PositionForeign
from windrow.record import Record, Shard
from windrow.settings import Settings

# The plans that the queries are written for: a table that fills and empties has statistics that mislead the planner.
_SESSION: Final = (
    "SET enable_seqscan = off",
    "SET enable_bitmapscan = off",  # its rows have no order: the whole backlog would be sorted for every page
    "SET max_parallel_workers_per_gather = 0",
    "SET jit = off",
    "SET plan_cache_mode = force_generic_plan",
    "SET default_transaction_read_only = on",
)
_COLUMNS: Final = {
    **{name: name for name in Record._fields},
    "timestamp": "(extract(epoch FROM timestamp) * 1000)::bigint AS timestamp",
}
NO_BOUND: Final = 2**62
_SIZE: Final = "coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0) + pg_column_size(header_values)"


class SnapshotCapture:
    """Reads one shard's rows from where `committed` ends, or from the very first without it."""

    def __init__(self, settings: Settings, shard: Shard, committed: str | None) -> None:
        self._source = connection_string(settings.data_source, f"windrow {settings.name} {shard.index}")
        self._tables = Tables.beside(settings.outbox_table)
        self._limits = settings.limits
        self._relay = settings.name
        self._fragments: dict[str, Composable] = {
            "columns": SQL(", ".join(_COLUMNS.values())),
            "names": SQL(", ".join(_COLUMNS)),
            "size": SQL(_SIZE),
            "mine": predicate(shard),
        }
        self._connection = connect(self._source)
        with interruptible():
            for setting in _SESSION:
                self._connection.execute(setting)
            self._position = self._start(committed)

    def next(self) -> Page:
        with interruptible():
            return self._poll() if self._position.hi is None else self._read_on(self._position.hi)

    def close(self) -> None:
        self._connection.close()
        if "_arrow" in self.__dict__:
            self._arrow.close()

    def _start(self, committed: str | None) -> Position:
        database, horizon, newest = self._row("identity") or ("", "0", None)
        position = Position.decode(committed) if committed else Position(database)
        if position.database != database:
            raise PositionForeign(
                f"the committed position belongs to database cluster {position.database}, this one is {database}"
                " (a restored dump, or another server)"
            )
        if newest and int(newest) >= int(horizon):
            raise PositionForeign(
                f"the outbox has rows of transaction {newest}, which this cluster has not reached yet ({horizon})"
                ": they were restored or copied from another one"
            )
        if max(position.lo.xmax, position.hi.xmax if position.hi else 0) > int(horizon):
            raise PositionForeign(
                f"the committed position is ahead of the database, which stands at transaction {horizon}"
                ": it was set back to an earlier state"
            )
        return position

    def _poll(self) -> Page:
        """Caught up: all that is new, in one round trip."""
        rows = self._connection.execute(
            self._poll_query,
            {
                "lo": str(self._position.lo),
                "relay": self._relay,
                "records": self._limits.page_records,
                "bytes": self._limits.page_bytes,
            },
            prepare=True,
            binary=True,
        ).fetchall()
        snapshot, epoch, crowded = rows[0][:3]
        seen = Snapshot.parse(snapshot)
        hi = seen.narrowed(MAX_SNAPSHOT, since=self._position.lo)
        if hi == self._position.lo != seen:  # so many transactions are open that nothing newer can be told apart
            return self._page([], self._position, epoch, more=False)
        if crowded or hi != seen:
            self._position = replace(self._position, hi=hi, after=self._before_first(self._position.lo, hi))
            return self._read_on(hi)
        window = replace(self._position, hi=hi)
        self._position = replace(self._position, lo=hi)
        records = [Record._make(row[3:]) for row in rows if row[3] is not None]
        return self._page(records, window, epoch, more=False)

    def _read_on(self, hi: Snapshot) -> Page:
        """Behind: the next page of what lies between `lo` and `hi`."""
        epoch = self.current_epoch()
        with self._arrow.cursor() as cursor:
            cursor.execute(self._page_statement(hi))
            columns = [column.to_pylist() for column in cursor.fetch_arrow_table().columns]
        records = list(map(Record._make, zip(*columns, strict=True)))
        window = self._position
        if records:
            self._position = replace(self._position, after=records[-1].id)
        else:
            self._position = Position(self._position.database, lo=hi)
        return self._page(records, window, epoch, more=True)

    def _page(self, records: list[Record], window: Position, epoch: UUID | None, *, more: bool) -> Page:
        return Page(records, self._position, epoch, lambda last: replace(window, after=last), more)

    def _before_first(self, lo: Snapshot, hi: Snapshot) -> int:
        """An id below all of those between `lo` and `hi`, so that paging does not start among the published ones."""
        if lo == NOTHING:
            return 0
        row = self._row("first", lo=str(lo), hi=str(hi))
        return row[0] - 1 if row and row[0] is not None else 0

    def current_epoch(self) -> UUID | None:
        row = self._connection.execute(
            self._tables.fill(query("relay", "current_epoch")), {"name": self._relay}
        ).fetchone()
        return row[0] if row else None

    def _row(self, name: str, **parameters: Any) -> tuple[Any, ...] | None:
        statement = self._tables.fill(query("snapshot", name), **self._fragments)
        return self._connection.execute(statement, parameters).fetchone()

    @cached_property
    def _poll_query(self) -> Composed:
        return self._tables.fill(query("snapshot", "poll"), **self._fragments)

    def _page_statement(self, hi: Snapshot) -> str:
        # COPY, which ADBC reads twice as fast as a plain result, takes no parameters: quoted literals instead.
        return self._tables.fill(
            query("snapshot", "page"),
            **self._fragments,
            lo=Literal(str(self._position.lo)),
            hi=Literal(str(hi)),
            after=Literal(self._position.after),
            upto=Literal(NO_BOUND),
            records=Literal(self._limits.page_records),
            bytes=Literal(int(self._limits.page_bytes)),
        ).as_string(self._connection)

    @cached_property
    def _arrow(self) -> Any:
        """A second connection that returns results as Arrow, opened with the first backlog."""
        connection = adbc.connect(self._source, autocommit=True)
        with connection.cursor() as cursor:
            for setting in _SESSION:
                cursor.execute(setting)
        return connection
