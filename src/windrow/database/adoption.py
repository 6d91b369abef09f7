"""What the outbox is, by the catalogue, and what it still needs before a capture can find its rows.

A table of another system is taken over as it is. What windrow needs besides is added: the writing transaction (`tx`) or
a mark, indexes, an order where rows have none. The same list tells beforehand what is going to happen, then does it.

Invariant: settings that do not go with the layout are refused before anything is changed.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from psycopg.sql import SQL

from windrow.database.custom import custom, misfits
from windrow.database.layouts import DISPATCHED, LAYOUTS, NAMED, OWN, TX, Layout, told
from windrow.database.postgres import Connection, Tables
from windrow.database.queries import query
from windrow.errors import OutboxTableMissing, SettingsInvalid
from windrow.settings import Settings
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


def table_of(connection: Connection, tables: Tables) -> Table:
    """The outbox as it is; without columns where it is not there."""
    name = {"table": tables.outbox.as_string(connection)}
    columns = connection.execute(query("layout", "columns"), name).fetchall()
    indexes = connection.execute(query("layout", "indexes"), name).fetchall()
    return Table(
        {str(column): str(kind) for column, kind in columns},
        frozenset(Index(column, where.replace('"', "")) for column, where in indexes),
    )


def layout_of(connection: Connection, settings: Settings, capture: str) -> Layout:
    """The outbox's layout, once it is seen to be one and to have all that this capture needs."""
    tables = Tables.beside(settings.outbox_table)
    table = table_of(connection, tables)
    layout = fit(table.columns, settings)
    refuse_unfit(layout, settings, capture)
    if lacking := [each for each in (layout.found_by(capture), *layout.added) if unquoted(each) not in table.columns]:
        raise OutboxTableMissing(
            f"outboxTable {tables.outbox.as_string()}, a table of {layout.name} layout, lacks {', '.join(lacking)}, by"
            f' which capture: {capture} finds rows: run "windrow init"; or give the capture that it was made for'
        )
    return layout


def fit(columns: Mapping[str, str], settings: Settings) -> Layout:
    """The layout of a table that is there, or an error that names what it lacks."""
    outbox = Tables.beside(settings.outbox_table).outbox.as_string()
    if settings.layout == "custom":
        if wrong := [*misfits(settings.columns, columns)]:
            raise OutboxTableMissing(
                f"outboxTable {outbox} is not as the setting columns says: {'; '.join(wrong)}\n"
                "Correct columns, or change the table."
            )
        return custom(settings.columns, columns)
    among = LAYOUTS if settings.layout == "auto" else (NAMED[settings.layout],)
    if layout := told(columns, among):
        return layout
    lacking = {each.name: sorted(each.told_by - columns.keys()) for each in among}
    lists = "; ".join(f"for {name} layout it lacks {', '.join(names)}" for name, names in lacking.items())
    raise OutboxTableMissing(
        f"outboxTable {outbox} is no outbox that windrow can read: {lists}\n"
        'Name another table in outboxTable, and "windrow init" creates it; or give this one the columns; or name its'
        " own with layout: custom."
    )


def adopted(table: Table, settings: Settings) -> Layout:
    """The layout that a table has or, where it is not there, is going to have; settings that do not fit are refused."""
    if not table.columns and settings.layout not in {"auto", "windrow"}:
        raise OutboxTableMissing(
            f"outboxTable {settings.outbox_table} is not there: with layout: {settings.layout} it is made by those who"
            " write to it; name the right one, or leave layout out for a table of windrow's own"
        )
    layout = fit(table.columns, settings) if table.columns else _own(settings)
    refuse_unfit(layout, settings, settings.capture)
    return layout


def awaited(settings: Settings) -> Layout:
    """The layout that a table nobody can look at is going to have, by the settings alone."""
    named = custom(settings.columns, {}) if settings.layout == "custom" else NAMED.get(settings.layout, _own(settings))
    refuse_unfit(named, settings, settings.capture)
    return named


def _own(settings: Settings) -> Layout:
    """The layout of a new table of windrow's."""
    return DISPATCHED if settings.capture == "sweep" else OWN


def refuse_unfit(layout: Layout, settings: Settings, capture: str) -> None:
    """Raise where published rows could not be told apart, or are to be kept and cannot."""
    if layout.processed and capture == "snapshot":
        which = f"outbox {settings.outbox_table} is of {layout.name} layout"
        raise SettingsInvalid([f"capture: {which}, where {layout.processed} tells what is published; give mark"])
    if capture == "sweep" and not layout.processed:
        which = f"outbox {settings.outbox_table}, of {layout.name} layout, has no column for when a row was dispatched"
        raise SettingsInvalid([f"capture: sweep: {which}; name a new outboxTable, or give mark"])
    if capture == "mark" and settings.purge.retention and not layout.processed:
        raise SettingsInvalid(
            ["purge.retention: capture: mark deletes rows once they are published; leave it out, or give snapshot"]
        )


def additions(layout: Layout, capture: str, table: Table = NOT_THERE) -> Iterator[Addition]:
    """What the table lacks, in the order in which it is added."""
    if layout.added.keys() - table.columns.keys():
        columns = ", ".join(f"ADD COLUMN IF NOT EXISTS {name} {kind}" for name, kind in layout.added.items())
        yield Addition(
            f"columns {' and '.join(layout.added)} (its rows' order and age), for which it is rewritten once;"
            " writers wait meanwhile",
            SQL(f"ALTER TABLE {{outbox}} {columns}"),
        )
    if capture == "snapshot" and not (TX in table.columns and Index(TX) in table.indexes):
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
    if capture != "snapshot" and unquoted(mark) not in table.columns:
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


def _lacks(table: Table, column: str, where: str = "") -> bool:
    return Index(unquoted(column), where.replace('"', "")) not in table.indexes


def finding(layout: Layout, capture: str, table: Table = NOT_THERE) -> Finding:
    """By the transaction that wrote a row, and an index; or by a mark, which costs writers nothing."""
    columns = {
        "snapshot": ["tx            xid8 NOT NULL DEFAULT pg_current_xact_id()"],
        "mark": ["mark          uuid"],
        "sweep": ["mark          uuid", "dispatched    timestamptz"],
    }
    statements = [each.statements.as_string() for each in additions(layout, capture, table)]
    return Finding(SQL("".join(f"\n  {each}," for each in columns[capture])), SQL(";\n".join(statements)))
