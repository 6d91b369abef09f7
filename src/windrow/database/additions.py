"""What an outbox still needs before a capture can find its rows.

The writing transaction (`tx`) or a mark, indexes, an order where rows have none. The same list tells beforehand what is
going to happen, then does it.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from psycopg.sql import SQL

from windrow.database.layouts import BY_TRANSACTION, TX, Layout
from windrow.table import unquoted


class Index(NamedTuple):
    """An index by its first column, over all rows or over some."""

    column: str
    where: str = ""


class Table(NamedTuple):
    """A table as the catalogue has it: its columns with their types, and its indexes."""

    columns: Mapping[str, str]
    indexes: AbstractSet[Index]


class Addition(NamedTuple):
    """Something that a table gets: what it is, and the statements that add it."""

    words: str
    statements: SQL


class Finding(NamedTuple):
    """What makes a table one whose rows a capture can find."""

    column: SQL
    """Its column, in the definition of a new table."""
    find: SQL
    """Statements for a table that may have been there, another system's for instance."""


NOT_THERE: Final = Table({}, frozenset())
_UNLESS_THERE: Final = "/*M! IF NOT EXISTS */"
"""What only MariaDB reads."""


def additions(layout: Layout, capture: str, table: Table = NOT_THERE) -> Iterator[Addition]:
    """What the table lacks, in the order in which it is added."""
    return _on_mysql(layout, table) if layout.dialect == "mysql" else _on_postgresql(layout, capture, table)


def _on_postgresql(layout: Layout, capture: str, table: Table) -> Iterator[Addition]:
    if layout.added.keys() - table.columns.keys():
        columns = ", ".join(f"ADD COLUMN IF NOT EXISTS {name} {kind}" for name, kind in layout.added.items())
        yield Addition(
            f"columns {' and '.join(layout.added)} (its rows' order and age), for which it is rewritten once;"
            " writers wait meanwhile",
            SQL(f"ALTER TABLE {{outbox}} {columns}"),
        )
    if capture in BY_TRANSACTION and not (TX in table.columns and Index(TX) in table.indexes):
        yield Addition(
            f"a column {TX} (the writing transaction), for which it is rewritten once, and an index on it; writers"
            " wait meanwhile",
            SQL(
                "-- A table that was there is rewritten once for its new column.\n"
                "ALTER TABLE {outbox} ADD COLUMN IF NOT EXISTS tx xid8 NOT NULL DEFAULT pg_current_xact_id();\n"
                "CREATE INDEX ON {outbox} (tx)"
            ),
        )
    mark, processed, number = layout.columns.mark, layout.processed, layout.columns.id
    if table.columns and number not in layout.added and _lacks(table, number):
        yield Addition(f"a unique index on {number}", SQL(f"CREATE UNIQUE INDEX ON {{outbox}} ({number})"))
    if capture not in BY_TRANSACTION and unquoted(mark) not in table.columns:
        yield Addition(f"a column {mark}", SQL(f"ALTER TABLE {{outbox}} ADD COLUMN IF NOT EXISTS {mark} uuid"))
    if processed:
        waiting = f"({processed} IS NULL)"
        if _lacks(table, number, waiting):
            yield Addition(
                f"an index on {number} where {processed} is null",
                SQL(f"CREATE INDEX ON {{outbox}} ({number}) WHERE {waiting}"),
            )
        if _lacks(table, processed):
            yield Addition(f"an index on {processed}", SQL(f"CREATE INDEX ON {{outbox}} ({processed})"))


def _on_mysql(layout: Layout, table: Table) -> Iterator[Addition]:
    """MySQL's ALTER TABLE, unlike MariaDB's, does not ask what is there, and cannot be taken back: each step is added
    by itself where it is lacking, and nothing that a new table is made with.
    """
    mark, processed, number = layout.columns.mark, layout.processed, layout.columns.id
    taken_over = bool(table.columns) or not layout.own
    if taken_over and (lacking := [name for name in layout.added if name not in table.columns]):
        columns = ", ".join(f"ADD COLUMN {_UNLESS_THERE} {name} {layout.added[name]}" for name in lacking)
        yield Addition(
            f"columns {' and '.join(lacking)} (its rows' order and age), for which it is rewritten once;"
            " writers wait meanwhile",
            SQL(f"ALTER TABLE {{outbox}} {columns}"),
        )
    if table.columns and number not in layout.added and _lacks(table, number):
        yield Addition(f"a unique index on {number}", SQL(f"CREATE UNIQUE INDEX windrow_id ON {{outbox}} ({number})"))
    if taken_over and unquoted(mark) not in table.columns:
        yield Addition(f"a column {mark}", SQL(f"ALTER TABLE {{outbox}} ADD COLUMN {_UNLESS_THERE} {mark} binary(16)"))
    if processed and _lacks(table, processed):
        yield Addition(
            f"an index on {processed} and {number}",
            SQL(f"CREATE INDEX {_UNLESS_THERE} windrow_processed ON {{outbox}} ({processed}, {number})"),
        )


def _lacks(table: Table, column: str, where: str = "") -> bool:
    return Index(unquoted(column), where.replace('"', "")) not in table.indexes


_FOUND_BY: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("postgresql", "snapshot"): ("tx            xid8 NOT NULL DEFAULT pg_current_xact_id()",),
    ("postgresql", "tail"): ("tx            xid8 NOT NULL DEFAULT pg_current_xact_id()",),
    ("postgresql", "mark"): ("mark          uuid",),
    ("postgresql", "sweep"): ("mark          uuid", "dispatched    timestamptz"),
    ("mysql", "mark"): ("mark          binary(16)",),
    ("mysql", "sweep"): ("mark          binary(16)", "dispatched    datetime(6)"),
}


def finding(layout: Layout, capture: str, table: Table = NOT_THERE) -> Finding:
    """By the transaction that wrote a row, and an index; or by a mark, which costs writers nothing."""
    statements = [each.statements.as_string() for each in additions(layout, capture, table)]
    columns = _FOUND_BY[layout.dialect, capture]
    return Finding(SQL("".join(f"\n  {each}," for each in columns)), SQL("".join(f"\n{each};" for each in statements)))
