"""The `snapshot` capture: find new rows by which transactions a snapshot sees, without writing to the database.

A row is new if its transaction is not visible in `lo`. Caught up, one statement returns the new rows and the snapshot
`hi` that it saw them in; once they are published, `lo = hi`. If they are too many for one page, `hi` is kept, and the
rows between `lo` and `hi` are paged by id. No row is skipped, in whatever order transactions commit: a row that a page
did not see because its transaction was open is not visible in `hi` either, so it is new again under the next `lo`.

Rows are ordered by id, not by transaction: a transaction may get its number early, wait on a lock, and write later.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple
from uuid import UUID

import adbc_driver_postgresql.dbapi as adbc
import pyarrow as pa
from adbc_driver_postgresql import StatementOptions
from psycopg.sql import SQL, Composable, Composed, Literal, Placeholder

from windrow.capture.log_position import of_log
from windrow.capture.position import (
    MAX_SNAPSHOT,
    NOTHING,
    REMEDY,
    Position,
    Snapshot,
    objection,
    objection_to_rows,
)
from windrow.capture.protocol import Page, selected
from windrow.capture.shards import predicate
from windrow.closing import closed_on_error
from windrow.columns import Columns
from windrow.database.adoption import layout_of
from windrow.database.connections import interruptible
from windrow.database.postgres import connect, connection_string, settled
from windrow.database.tables import Tables
from windrow.errors import Interrupted, PositionForeign
from windrow.record import Record, Shard
from windrow.settings import Settings

_ANOTHER: Final = "Give the capture that the relay was run with, or another name to begin anew under."
NO_BOUND: Final = 2**62
_BATCH_BYTES: Final = StatementOptions.BATCH_SIZE_HINT_BYTES.value
_ABOVE_ALL: Final = 5
"""How many columns of a poll say something of all its rows."""
_SESSION: Final = settled(default_transaction_read_only="on")


@dataclass(frozen=True, slots=True)
class Span:
    """The rows that are visible in `hi` and not in `lo`, with ids above `after` and up to `upto`."""

    lo: Snapshot
    hi: Snapshot
    after: int
    upto: int = NO_BOUND


class Control(NamedTuple):
    """What the control row says to tasks."""

    epoch: UUID | None
    release: int


def lasting(snapshot: str, newest: int | None, since: Snapshot) -> Snapshot:
    """What a position may say that a snapshot saw: up to the newest transaction with rows, if there is any since.

    That one was visible, so it is on disk, and no number up to its own is ever given again. Of those behind it nothing
    is known; but they have no rows, so nothing is left out.
    """
    return Snapshot.parse(snapshot).before(max(since.xmax, 0 if newest is None else newest + 1))


def unseen(tables: Tables, lo: Composable) -> dict[str, Composable]:
    """Parts of statements: the rows not visible in `lo`, and the newest transaction of them."""
    settled = tables.query("snapshot", "settled", lo=lo)
    return {name: tables.query("snapshot", name, lo=lo, settled=settled) for name in ("unseen", "newest")}


class SnapshotCapture:
    """Reads one shard's rows, once started.

    With a target, a position without `hi`, it goes on to there and no further.
    """

    def __init__(self, settings: Settings, shard: Shard, target: str | None = None) -> None:
        self._source = connection_string(settings.data_source, f"windrow {settings.name} {shard.index}")
        self._tables = Tables.of(settings)
        self._limits = settings.limits
        self._me = {"relay": settings.name, "shard": shard.index}
        self._target = Position.decode(target).lo if target else None
        self._connection = connect(self._source)
        with interruptible(), closed_on_error(self):
            self._layout = layout_of(self._connection, settings, "snapshot")
            self._fragments: dict[str, Composable] = {
                **self._layout.fragments(),
                "columns": SQL(", ".join(selected(self._layout, Record._fields))),
                "names": SQL(", ".join(Record._fields)),
                "mine": predicate(shard, self._layout),
                **unseen(self._tables, Placeholder("lo")),
            }
            # A backlog's rows pass by the hundred thousand: there the time of writing is read of some only.
            some = not settings.tracing
            self._paged = SQL(", ".join(selected(self._layout, Record._fields, some=some)))
            self._connection.execute(_SESSION.encode())
        self._position = Position("")
        self._ahead: Iterator[pa.RecordBatch] = iter(())

    def start(self, committed: str | None) -> None:
        """Read from where `committed` ends, or from the very first row without it."""
        with interruptible():
            self._position = self._checked(committed)

    def next(self) -> Page:
        with interruptible():
            if self._position.hi is not None:
                return self._read_on(self._position.hi)
            return self._poll() if self._target is None else self._drain(self._target)

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        self._connection.close()
        if "_arrow" in self.__dict__:
            self._arrow.close()

    def _checked(self, committed: str | None) -> Position:
        database, horizon, foreign = self._row("identity") or ("", "0", None)
        if committed and of_log(committed):
            raise PositionForeign(f"the committed position {committed[:80]!r} is one of capture: tail\n{_ANOTHER}")
        position = Position.decode(committed) if committed else Position(database)
        why = objection(position, database, int(horizon)) or objection_to_rows(foreign and int(foreign), int(horizon))
        if why:
            raise PositionForeign(f"{why}\n{REMEDY}")
        return position

    def _poll(self) -> Page:
        """Caught up: all that is new, in one round trip."""
        rows = self._connection.execute(
            self._poll_query,
            {
                "lo": str(self._position.lo),
                **self._me,
                "records": self._limits.records_at_once,
                "bytes": self._limits.page_bytes,
            },
            prepare=True,
            binary=True,
        ).fetchall()
        snapshot, newest, epoch, release, crowded = rows[0][:_ABOVE_ALL]
        control = Control(epoch, release or 0)
        seen = lasting(snapshot, newest, self._position.lo)
        hi = seen.narrowed(MAX_SNAPSHOT, since=self._position.lo)
        if hi == self._position.lo != seen:  # so many transactions are open that nothing newer can be told apart
            return self._page([], self._position, control, more=False)
        if crowded or hi != seen:
            return self._catch_up(hi)
        window = replace(self._position, hi=hi)
        self._position = replace(self._position, lo=hi)
        records = [Record(*row[_ABOVE_ALL:]) for row in rows if row[_ABOVE_ALL] is not None]
        return self._page(records, window, control, more=False)

    def _drain(self, target: Snapshot) -> Page:
        """All that is visible in the target; then nothing, at the position that the target is."""
        if self._position.lo == target:
            return self._page([], self._position, self.control(), more=False)
        if self._position.lo.xmax > target.xmax:
            raise Interrupted("the shard is ahead of the snapshot that all shards were to stop at")
        return self._catch_up(target)

    def _catch_up(self, hi: Snapshot) -> Page:
        """From now on behind: the first page. What pages are read on is connected while the first row is looked for."""
        with ThreadPoolExecutor(1) as meanwhile:
            meanwhile.submit(lambda: self._arrow)  # where that fails, so does the reading
            self._position = replace(self._position, hi=hi, after=self._before_first(self._position.lo))
        return self._read_on(hi)

    def _read_on(self, hi: Snapshot) -> Page:
        """Behind: the next page of what lies between `lo` and `hi`."""
        control = self.control()
        rows = next(self._ahead, None)
        if rows is None:  # all that the last statement found is handed out
            span = Span(self._position.lo, hi, self._position.after)
            self._ahead = self._batches(self._statement(span, self._paged, self._limits.records_at_once))
            rows = next(self._ahead, None)
        records = Columns(rows) if rows else []
        window = self._position
        if records:
            self._position = replace(self._position, after=records[-1].id)
        else:
            self._position = Position(self._position.database, lo=hi)
        return self._page(records, window, control, more=True)

    def _page(self, records: Sequence[Record], window: Position, control: Control, *, more: bool) -> Page:
        return Page(
            records, self._position, control.epoch, lambda last: replace(window, after=last), more, control.release
        )

    def _before_first(self, lo: Snapshot) -> int:
        """An id below all of those not visible in `lo`, so that paging does not start among the published ones."""
        if lo == NOTHING:
            return -NO_BOUND
        row = self._row("first", lo=str(lo))
        return row[0] - 1 if row and row[0] is not None else -NO_BOUND

    def control(self) -> Control:
        row = self._connection.execute(self._tables.query("relay", "control"), self._me).fetchone()
        return Control(*row) if row else Control(None, 0)

    def _row(self, name: str, **parameters: Any) -> tuple[Any, ...] | None:
        statement = self._tables.query("snapshot", name, **self._fragments)
        return self._connection.execute(statement, parameters).fetchone()

    @cached_property
    def _poll_query(self) -> bytes:
        """As bytes: rendered once, not with every look."""
        return self._tables.query("snapshot", "poll", **self._fragments).as_bytes(self._connection)

    def _statement(self, span: Span, columns: Composable, records: int) -> Composed:
        # COPY, which ADBC reads twice as fast as a plain result, takes no parameters: quoted literals instead.
        return self._tables.query(
            "snapshot",
            "page",
            **{**self._fragments, "columns": columns},
            lo=Literal(str(span.lo)),
            hi=Literal(str(span.hi)),
            after=Literal(span.after),
            upto=Literal(span.upto),
            records=Literal(records),
        )

    def _batches(self, statement: Composed) -> Iterator[pa.RecordBatch]:
        """The rows that a statement finds, a page's bytes at a time (one row at least), as they come from the server:
        summing up sizes there would cost it half as much again as finding the rows.
        """
        with self._arrow.cursor(adbc_stmt_kwargs={_BATCH_BYTES: str(int(self._limits.page_bytes))}) as cursor:
            cursor.execute(statement.as_string(self._connection))
            try:
                yield from cursor.fetch_record_batch()
            except OSError as error:  # of Arrow's reader, which does not know whose errors it hands on
                raise Interrupted(f"the database broke off: {str(error).strip()}") from error

    @cached_property
    def _arrow(self) -> Any:
        """A second connection that returns results as Arrow, opened with the first backlog."""
        connection = adbc.connect(self._source, autocommit=True)
        with connection.cursor() as cursor:
            cursor.execute(_SESSION)
            cursor.fetchall()
        return connection
