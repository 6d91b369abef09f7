"""Numbered migrations, applied once each and in order.

Invariant: all that is pending is applied in one transaction under one lock, so a table is at a version or at another,
never between; running it again changes nothing.
"""

from dataclasses import dataclass
from importlib.resources import files

import psycopg
from psycopg.sql import SQL, Composed, Literal

from windrow.database.adoption import Finding, adopted, awaited, finding, table_of
from windrow.database.postgres import Connection, Tables
from windrow.database.queries import query
from windrow.database.ring import Ring, columns
from windrow.errors import OutboxTableMissing
from windrow.settings import Settings


@dataclass(frozen=True, slots=True)
class Migration:
    version: int
    title: str
    statements: SQL


def migrations() -> list[Migration]:
    """All migrations, oldest first."""
    found = [file for file in files(__package__).joinpath("migrations").iterdir() if file.name.endswith(".sql")]
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
    tables = Tables.beside(settings.outbox_table)
    with connection.transaction():
        connection.execute(query("migration", "lock"), {"table": tables.outbox.as_string(connection)})
        table = table_of(connection, tables)
        layout = adopted(table, settings)
        if table.columns:
            ring = None
        connection.execute(tables.fill(query("migration", "create")))
        version = _version(connection, tables)
        pending = [migration for migration in migrations() if migration.version > version]
        for migration in pending:
            connection.execute(_statements(tables, migration, finding(layout, settings.capture, table), ring))
            connection.execute(_record(tables, migration))
    return pending


def script(settings: Settings, shards: int, ring: Ring | None = None) -> str:
    """All migrations and the relay's entry as one script, for those who run their schema changes by hand."""
    tables, layout = Tables.beside(settings.outbox_table), awaited(settings)
    parts: list[Composed | SQL] = [SQL("BEGIN"), tables.fill(query("migration", "create"))]
    for migration in migrations():
        parts.append(_statements(tables, migration, finding(layout, settings.capture), ring))
        parts.append(_record(tables, migration))
    parts.append(tables.fill(query("relay", "enter"), name=Literal(settings.name), shards=Literal(shards)))
    parts.append(SQL("COMMIT"))
    return ";\n\n".join(part.as_string().strip().removesuffix(";") for part in parts) + ";\n"


def check(connection: Connection, tables: Tables) -> None:
    """Raise unless the tables are there, at this version."""
    newest = migrations()[-1].version
    try:
        version = _version(connection, tables)
    except psycopg.errors.UndefinedTable:
        version = 0
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
    return tables.fill(query("migration", "record"), version=Literal(migration.version))


def _version(connection: Connection, tables: Tables) -> int:
    row = connection.execute(tables.fill(query("migration", "version"))).fetchone()
    return int(row[0]) if row else 0
