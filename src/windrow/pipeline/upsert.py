"""Batches of a streaming query, upserted into a table of a database once: `writeStream.foreachBatch(Upsert(…))`.

Tasks write their rows to a table beside it, each attempt under a name of its own. The driver then merges what the
attempts that counted have written, and notes the batch, in one transaction.

Invariant: a query's batch is noted if and only if its rows are merged, and numbers only go up. A batch that is run
again finds itself noted and changes nothing. The query is told by the id in its checkpoint, so that a new checkpoint
begins anew instead of skipping what has the same numbers.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame

from windrow.database.connections import connect_plainly
from windrow.errors import SettingsInvalid
from windrow.settings import dialect_of
from windrow.table import Dialect, quoted, remedies

_REPORT: Final = "attempt string"
_CHUNK: Final = 1_000
_NOTES: Final = "CREATE TABLE IF NOT EXISTS {noted} (query varchar(36) PRIMARY KEY, batch bigint NOT NULL)"
_STAGED: Final[dict[Dialect, str]] = {
    "postgresql": (
        "CREATE UNLOGGED TABLE IF NOT EXISTS {staged} AS SELECT ''::varchar(36) AS windrow_query,"
        " ''::varchar(36) AS windrow_attempt, 0::bigint AS windrow_row, {columns} FROM {table} WITH NO DATA"
    ),
    "mysql": (
        "CREATE TABLE IF NOT EXISTS {staged} AS SELECT CAST('' AS char(36)) AS windrow_query,"
        " CAST('' AS char(36)) AS windrow_attempt, CAST(0 AS signed) AS windrow_row, {columns} FROM {table} LIMIT 0"
    ),
}
_ENTER: Final[dict[Dialect, str]] = {
    "postgresql": "INSERT INTO {noted} (query, batch) VALUES (%s, -1) ON CONFLICT DO NOTHING",
    "mysql": "INSERT IGNORE INTO {noted} (query, batch) VALUES (%s, -1)",
}
_NOTE: Final = "UPDATE {noted} SET batch = %s WHERE query = %s AND batch < %s"
_MERGE: Final = (
    "INSERT INTO {table} ({columns}) SELECT {columns} FROM (SELECT {columns}, row_number() OVER"
    " (PARTITION BY {key} ORDER BY {order}) AS windrow_rank FROM {staged} WHERE windrow_attempt IN ({attempts}))"
    " AS ranked WHERE windrow_rank = 1 {conflict}"
)
_CLEAR: Final = "DELETE FROM {staged} WHERE windrow_query = %s"
_STAGE: Final = "INSERT INTO {staged} (windrow_query, windrow_attempt, windrow_row, {columns}) VALUES ({places})"
_COPY: Final = "COPY {staged} (windrow_query, windrow_attempt, windrow_row, {columns}) FROM STDIN"


@dataclass(frozen=True)
class Upsert:
    """Upserts a batch's rows by `key`, whose columns have a unique index; other columns are those of the frame.

    Of rows with the same key in a batch, the one with the largest `latest_by` counts, or any. Over Spark Connect, give
    the query's name (`queryName`) as `query`, unless it is the session's only one.
    """

    data_source: str
    table: str
    key: Sequence[str]
    latest_by: str | None = None
    query: str | None = None

    def __post_init__(self) -> None:
        mistakes = [f"table: {remedy}" for remedy in remedies(self.table)]
        if isinstance(self.key, str) or not self.key:
            mistakes.append("key: name one column at least, in a list")
        if mistakes:
            raise SettingsInvalid(mistakes)

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """What Spark calls for each batch."""
        columns, query = frame.columns, self._query_id(frame)
        with closing(connect_plainly(self.data_source, "windrow upsert")) as connection:
            with connection.cursor() as cursor:
                for statement in (_NOTES, _STAGED[self._dialect]):
                    cursor.execute(self._filled(statement, columns))
                cursor.execute(self._filled(_ENTER[self._dialect], columns), (query,))
            connection.commit()
            reports = frame.mapInArrow(_Stage(self, query, tuple(columns)), _REPORT).collect()
            if not reports:
                return
            with connection.cursor() as cursor:
                cursor.execute(self._filled(_NOTE, columns), (batch, query, batch))
                if cursor.rowcount == 1:
                    attempts = [each.attempt for each in reports]
                    places = ", ".join(["%s"] * len(attempts))
                    cursor.execute(self._filled(_MERGE, columns, attempts=places), attempts)
                cursor.execute(self._filled(_CLEAR, columns), (query,))
            connection.commit()

    def _query_id(self, frame: DataFrame) -> str:
        """The id in the query's checkpoint."""
        session = frame.sparkSession
        if not type(frame).__module__.startswith("pyspark.sql.connect"):
            found = [session.sparkContext.getLocalProperty("sql.streaming.queryId")]
        else:
            found = [each.id for each in session.streams.active if self.query in {None, each.name}]
        if len(found) != 1 or not found[0]:
            raise SettingsInvalid(
                ["query: which streaming query is this? Give it a queryName, and the same one to Upsert"]
            )
        return str(found[0])

    @property
    def _dialect(self) -> Dialect:
        return dialect_of(self.data_source)

    def _filled(self, template: str, columns: Sequence[str], **more: str) -> str:
        quote = '"' if self._dialect == "postgresql" else "`"

        def name(column: str) -> str:
            return f"{quote}{column.replace(quote, 2 * quote)}{quote}"

        given = {
            "table": quoted(self.table, quote=quote),
            "noted": quoted(self.table, "_batch", quote),
            "staged": quoted(self.table, "_staged", quote),
            "columns": ", ".join(map(name, columns)),
            "key": ", ".join(map(name, self.key)),
            "order": f"{name(self.latest_by)} DESC" if self.latest_by else "windrow_row",
            "conflict": self._conflict([name(each) for each in columns if each not in self.key], name),
            **more,
        }
        return template.format(**given)

    def _conflict(self, others: Sequence[str], name: Any) -> str:
        if self._dialect == "mysql":
            return "ON DUPLICATE KEY UPDATE " + ", ".join(
                f"{each} = VALUES({each})" for each in others or [name(self.key[0])]
            )
        key = ", ".join(map(name, self.key))
        updates = ", ".join(f"{each} = excluded.{each}" for each in others)
        return f"ON CONFLICT ({key}) DO {f'UPDATE SET {updates}' if updates else 'NOTHING'}"


@dataclass(frozen=True)
class _Stage:
    """A task: writes its rows to the table beside, and reports under which name."""

    upsert: Upsert
    query: str
    columns: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        attempt = str(uuid4())
        rows = (row for batch in batches for row in zip(*(each.to_pylist() for each in batch.columns), strict=True))
        tagged = ((self.query, attempt, number, *row) for number, row in enumerate(rows))
        first = next(tagged, None)
        if first is None:
            return
        with closing(connect_plainly(self.upsert.data_source, "windrow upsert")) as connection:
            with connection.cursor() as cursor:
                self._write(cursor, _chain(first, tagged))
            connection.commit()
        yield pa.RecordBatch.from_pydict({"attempt": [attempt]})

    def _write(self, cursor: Any, rows: Iterable[tuple[Any, ...]]) -> None:
        filled = self.upsert._filled  # noqa: SLF001 - its other half
        if dialect_of(self.upsert.data_source) == "postgresql":
            with cursor.copy(filled(_COPY, self.columns)) as copy:
                for row in rows:
                    copy.write_row(row)
            return
        statement = filled(_STAGE, self.columns, places=", ".join(["%s"] * (3 + len(self.columns))))
        for chunk in _chunks(rows):
            cursor.executemany(statement, chunk)


def _chain(first: tuple[Any, ...], rest: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    yield first
    yield from rest


def _chunks(rows: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    chunk: list[tuple[Any, ...]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
