"""Numbered migrations, applied once each and in order.

Invariant: what is pending is applied under one lock, and running it again changes nothing. On PostgreSQL that is one
transaction, so a table is at a version or at another, never between. MySQL has no transactions over changes of the
schema: there each step asks what is there, and a version is noted once all of it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from psycopg.sql import SQL, Composed

from windrow.database.additions import Finding, finding
from windrow.database.adoption import adopted, awaited, table_of
from windrow.database.connections import Connection
from windrow.database.ring import Ring, columns
from windrow.database.tables import Tables, names
from windrow.errors import Interrupted, OutboxTableMissing
from windrow.settings import Settings


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    title: str
    statements: SQL


def migrations(dialect: str) -> list[Migration]:
    """All migrations, oldest first."""
    folder = files(__package__).joinpath("migrations", dialect)
    found = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return [
        Migration(
            int(file.name[:4]),
            file.name[5:-4].replace("_", " "),
            SQL(file.read_text()),
        )
        for file in sorted(found, key=lambda file: file.name)
    ]


def migrate(connection: Connection, settings: Settings, ring: Ring | None = None) -> list[Migration]:
    """Apply what is pending and return it.

    A new outbox is made as this ring, or as a plain table; one that is there must be of a layout that windrow knows.
    """
    tables = Tables.of(settings)
    with connection.transaction():
        if not connection.execute(tables.query("migration", "lock")).fetchone() == (1,):
            raise Interrupted(f"somebody else is preparing outbox {settings.outbox_table}; try again")
        table = table_of(connection, tables)
        layout = adopted(table, settings)
        if table.columns:
            ring = None
        connection.execute(tables.query("migration", "create"))
        version = _version(connection, tables)
        pending = [migration for migration in migrations(tables.dialect) if migration.version > version]
        for migration in pending:
            connection.execute(_statements(tables, migration, finding(layout, settings.capture, table), ring))
            connection.execute(_record(tables, migration))
    return pending


def script(
    settings: Settings,
    shards: int,
    ring: Ring | None = None,
    with_them: Sequence[Composed] = (),
    then: Sequence[Composed] = (),
) -> str:
    """All migrations and the relay's entry as one script, for those who run their schema changes by hand; with what
    else belongs to them, and what has to come after they are committed.
    """
    tables, layout = Tables.of(settings), awaited(settings)
    opening = SQL("SET sql_mode = 'ANSI_QUOTES'") if tables.dialect == "mysql" else SQL("BEGIN")
    parts: list[Composed | SQL] = [opening, tables.query("migration", "create")]
    for migration in migrations(tables.dialect):
        parts.append(_statements(tables, migration, finding(layout, settings.capture), ring))
        parts.append(_record(tables, migration))
    parts.append(tables.query("relay", "enter", name=tables.literal(settings.name), shards=tables.literal(shards)))
    parts += with_them
    if tables.dialect == "postgresql":
        parts.append(SQL("COMMIT"))
    parts += then
    return ";\n\n".join(part.as_string().strip().removesuffix(";") for part in parts) + ";\n"


def check(connection: Connection, tables: Tables) -> None:
    """Raise unless the tables are there, at this version."""
    newest = migrations(tables.dialect)[-1].version
    recorded = connection.execute(tables.query("layout", "columns"), names(tables.migration)).fetchone()
    version = _version(connection, tables) if recorded else 0
    table = tables.outbox.as_string()
    if version == 0:
        raise OutboxTableMissing(f'outboxTable {table} is not there, or windrow did not make it: run "windrow init"')
    if version < newest:
        raise OutboxTableMissing(f'outboxTable {table} is at version {version} of {newest}: run "windrow init"')
    if version > newest:
        raise OutboxTableMissing(
            f"outboxTable {table} is at version {version}, this windrow knows {newest}: install a newer windrow"
        )


def _statements(tables: Tables, migration: Migration, finding: Finding, ring: Ring | None) -> Composed:
    find = tables.fill(finding.find)
    return tables.fill(migration.statements, found_by=finding.column, find=find, **columns(tables, ring))


def _record(tables: Tables, migration: Migration) -> Composed:
    return tables.query("migration", "record", version=tables.literal(migration.version))


def _version(connection: Connection, tables: Tables) -> int:
    row = connection.execute(tables.query("migration", "version")).fetchone()
    return int(row[0]) if row else 0
