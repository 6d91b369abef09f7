"""Table layouts: how the columns of a message are found in an outbox, be it windrow's own or one of another system.

A layout maps windrow's names to SQL expressions over the table, so that every statement is written once, in windrow's
names. Which layout a table has is read from the catalogue, by the columns that are there; nobody has to say it. What a
layout lacks, `windrow init` adds: at present `tx`, the writing transaction, which is windrow's own column everywhere.

Invariant: under windrow's own layout every expression is the plain column, so that it costs nothing.
"""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields
from typing import Final, NamedTuple

from psycopg.sql import SQL, Composable

from windrow.database.postgres import Connection, Tables
from windrow.database.queries import query
from windrow.errors import OutboxTableMissing

TX: Final = "tx"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """A message's columns as SQL expressions over the table, in the types of windrow's own outbox."""

    id: str = "id"
    create_time: str = "create_time"
    topic: str = "topic"
    key: str = "key"
    value: str = "value"
    header_keys: str = "header_keys"
    header_values: str = "header_values"
    partition: str = "partition"
    timestamp: str = "timestamp"
    mark: str = "mark"
    """Where `capture: mark` writes its marks; a plain column under every layout."""
    size: str = "coalesce(octet_length(value), 0) + coalesce(octet_length(key), 0) + pg_column_size(header_values)"
    """Bytes of key, value and headers, near enough to bound a page by."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table layout by its name: what tells it, how to read it, and how a message is written to it."""

    name: str
    told_by: frozenset[str]
    columns: Columns
    written: Mapping[str, str] = field(hash=False)
    """The columns that a message is written to, as expressions over windrow's own."""

    def found_by(self, capture: str) -> str:
        """The column by which a capture finds rows."""
        return TX if capture == "snapshot" else self.columns.mark

    def fragments(self) -> dict[str, Composable]:
        """The expressions by windrow's names, and the two lists of an INSERT, for named queries."""
        named = {each.name: SQL(getattr(self.columns, each.name)) for each in fields(self.columns)}
        return {**named, "written": SQL(", ".join(self.written)), "content": SQL(", ".join(self.written.values()))}


_CONTENT: Final = ("topic", "key", "value", "header_keys", "header_values", "partition", "timestamp")

OWN: Final = Layout(
    "windrow's own",
    frozenset({"id", "create_time", *_CONTENT}),
    Columns(),
    {name: name for name in ("create_time", *_CONTENT)},
)
GOHARVEST: Final = Layout(
    "goharvest's",
    frozenset(
        {
            "id",
            "create_time",
            "kafka_topic",
            "kafka_key",
            "kafka_value",
            "kafka_header_keys",
            "kafka_header_values",
        }
    ),
    Columns(
        topic="kafka_topic",
        key="convert_to(kafka_key, 'UTF8')",
        value="convert_to(kafka_value, 'UTF8')",
        header_keys="kafka_header_keys",
        # By the names' subscripts: the table does not hold that there are as many contents as names.
        header_values=(
            "ARRAY(SELECT convert_to(kafka_header_values[place], 'UTF8')"
            " FROM generate_subscripts(kafka_header_keys, 1) AS place)"
        ),
        mark="leader_id",
        partition="NULL::integer",
        timestamp="NULL::timestamptz",
        size=(
            "coalesce(octet_length(kafka_value), 0) + coalesce(octet_length(kafka_key), 0)"
            " + pg_column_size(kafka_header_values)"
        ),
    ),
    {
        "create_time": "create_time",
        "kafka_topic": "topic",
        "kafka_key": "convert_from(key, 'UTF8')",
        "kafka_value": "convert_from(value, 'UTF8')",
        "kafka_header_keys": "header_keys",
        "kafka_header_values": "ARRAY(SELECT convert_from(content, 'UTF8') FROM unnest(header_values) AS content)",
    },
)
LAYOUTS: Final = (OWN, GOHARVEST)


class Finding(NamedTuple):
    """What makes a table one whose rows a capture can find."""

    column: SQL
    """Its column, in the definition of a new table."""
    find: SQL
    """Statements for a table that may have been there, another system's for instance."""


def finding(layout: Layout, capture: str) -> Finding:
    """By the transaction that wrote a row, and an index; or by a mark, which costs writers nothing."""
    if capture == "snapshot":
        return Finding(
            SQL("\n  tx            xid8 NOT NULL DEFAULT pg_current_xact_id(),"),
            SQL(
                "-- A table that was there is rewritten once for its new column.\n"
                "ALTER TABLE {outbox} ADD COLUMN IF NOT EXISTS tx xid8 NOT NULL DEFAULT pg_current_xact_id();\n"
                "CREATE INDEX ON {outbox} (tx)"
            ),
        )
    return Finding(
        SQL("\n  mark          uuid,"),
        SQL(f"ALTER TABLE {{outbox}} ADD COLUMN IF NOT EXISTS {layout.columns.mark} uuid"),
    )


def told(columns: AbstractSet[str]) -> Layout | None:
    """The layout that a table with these columns has; None where it is none of them."""
    return next((each for each in LAYOUTS if each.told_by <= columns), None)


def columns_of(connection: Connection, tables: Tables) -> frozenset[str]:
    """The outbox's columns; none where it is not there."""
    rows = connection.execute(query("layout", "columns"), {"table": tables.outbox.as_string(connection)}).fetchall()
    return frozenset(str(name) for (name,) in rows)


def layout_of(connection: Connection, tables: Tables, capture: str) -> Layout:
    """The outbox's layout, once it is seen to be one and to have all that this capture needs."""
    columns = columns_of(connection, tables)
    layout = fit(columns, tables)
    if (needed := layout.found_by(capture)) not in columns:
        raise OutboxTableMissing(
            f"outboxTable {tables.outbox.as_string()}, a table of {layout.name} layout, lacks {needed}, by which"
            f' capture: {capture} finds rows: run "windrow init"; or give the capture that it was made for'
        )
    return layout


def fit(columns: AbstractSet[str], tables: Tables) -> Layout:
    """The layout of a table that is there, or an error that names what it lacks."""
    if layout := told(columns):
        return layout
    lacking = {each.name: sorted(each.told_by - columns) for each in LAYOUTS}
    lists = "; ".join(f"for {name} layout it lacks {', '.join(names)}" for name, names in lacking.items())
    raise OutboxTableMissing(
        f"outboxTable {tables.outbox.as_string()} is no outbox that windrow can read: {lists}\n"
        'Name another table in outboxTable, and "windrow init" creates it; or give this one the columns.'
    )
