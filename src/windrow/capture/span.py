"""Spans: the rows of a shard between two positions, for those who plan what to read before somebody else reads it.

A driver asks how far the next batch of a shard goes and hands both ends to a task; whoever reads the span, and however
often, finds the same rows. It holds because a span ends in a snapshot: what is visible there is committed, and what is
not visible there does not belong to it, now or later.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, NamedTuple, Self

import pyarrow as pa
from psycopg.sql import SQL

from windrow.capture.position import MAX_SNAPSHOT, Position, Snapshot
from windrow.capture.protocol import selected
from windrow.capture.snapshot import NO_BOUND, SnapshotCapture, Span, lasting
from windrow.closing import closed_on_error
from windrow.database.connections import interruptible
from windrow.errors import PositionForeign
from windrow.record import Shard
from windrow.settings import Settings

_COLUMNS: Final = (
    "id",
    "create_time",
    "topic",
    "key",
    "value",
    "header_keys",
    "header_values",
    "partition",
    "timestamp",
)
HEADERS: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("create_time", pa.timestamp("us", tz="UTC")),
        pa.field("topic", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("partition", pa.int32()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    ]
)
"""A message as Spark sees it."""
SPARK_SCHEMA: Final = (
    "id bigint, create_time timestamp, topic string, key binary, value binary,"
    " headers array<struct<key: string, value: binary>>, partition int, timestamp timestamp"
)
"""The same in Spark's words."""


class Reach(NamedTuple):
    """How far a batch goes: its end, and how many rows there are until then."""

    end: Position
    records: int


class _Bound(NamedTuple):
    records: int
    bytes: int


def between(start: Position, end: Position) -> Span:
    """The span from one position to a later one, with no other snapshot than theirs in between."""
    if end.hi is None:
        hi, upto = end.lo, NO_BOUND
        follows = start.hi in {None, end.lo}
    else:
        hi, upto = end.hi, end.after
        follows = start.lo == end.lo and start.hi in {None, end.hi}
    if not follows or start.database != end.database:
        raise PositionForeign(f"the position {end.encode()[:200]} does not follow on {start.encode()[:200]}")
    return Span(start.lo, hi, start.after, upto)


class SpanCapture(SnapshotCapture):
    """Plans and reads spans of one shard."""

    @classmethod
    def at(cls, settings: Settings, shard: Shard, committed: str | None) -> Self:
        """A capture that has started where `committed` ends."""
        capture = cls(settings, shard)
        with closed_on_error(capture):
            capture.start(committed)
        return capture

    @property
    def position(self) -> Position:
        return self._position

    def reach(
        self, start: Position, records: int = NO_BOUND, size: int = NO_BOUND, within: Snapshot | None = None
    ) -> Reach:
        """How far a batch goes of so many rows and bytes at most, but one row at least.

        `within` is a snapshot that later rows are left out by.
        """
        bound = _Bound(records, size)
        with interruptible():
            if start.hi is not None:
                return self._reach_in(start, start.hi, bound)
            row = self._row("fresh", lo=str(start.lo), records=records)
            snapshot, newest, fresh, bytes_ = row or ("1:1:", None, 0, 0)
            seen = within or lasting(snapshot, newest, start.lo)
            hi = seen.narrowed(MAX_SNAPSHOT, since=start.lo)
            if fresh == 0 or hi == start.lo:
                return Reach(start if hi == start.lo else Position(start.database, hi), 0)
            if fresh > records or bytes_ > size or hi != seen or within:
                return self._reach_in(replace(start, hi=hi, after=self._before_first(start.lo)), hi, bound)
            return Reach(Position(start.database, hi), fresh)

    def read(self, start: Position, end: Position) -> Iterator[pa.RecordBatch]:
        """The rows between two positions in the order of their ids, page by page."""
        columns = SQL(", ".join(f"{getattr(self._layout.columns, name)} AS {name}" for name in _COLUMNS))
        with interruptible():
            span = self._span(start, end)
            while True:
                last = None
                for rows in self._batches(self._statement(span, columns, self._limits.page_records)):
                    yield _messages(rows)
                    last = rows
                if last is None:
                    return
                span = replace(span, after=last.column("id")[-1].as_py())

    def written(self, start: Position, end: Position) -> list[int | None]:
        """When the rows of a page between two positions were written, in microseconds since 1970."""
        columns = SQL(", ".join(selected(self._layout, ("id", "written_at"))))
        with interruptible():
            statement = self._statement(self._span(start, end), columns, self._limits.page_records)
            return [at for _, at in self._connection.execute(statement).fetchall()]

    def _span(self, start: Position, end: Position) -> Span:
        span = between(start, end)
        return span if start.hi else replace(span, after=self._before_first(span.lo))

    def _reach_in(self, start: Position, hi: Snapshot, bound: _Bound) -> Reach:
        row = self._row("ahead", lo=str(start.lo), hi=str(hi), after=start.after, **bound._asdict())
        found, fitting, last = row or (0, 0, None)
        if found > fitting:
            return Reach(replace(start, hi=hi, after=last), fitting)
        return Reach(Position(start.database, hi), found)


def _messages(rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with their headers as pairs, which the table keeps as two arrays."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    names, contents = columns["header_keys"], columns["header_values"]
    pairs = pa.StructArray.from_arrays([names.values, contents.values], fields=list(HEADERS.value_type))
    columns["headers"] = pa.ListArray.from_arrays(names.offsets, pairs)
    return pa.RecordBatch.from_arrays([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)
