"""The outbox and the tables beside it, and the statements on them in the dialect of their database."""

import re
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Final
from uuid import UUID

from psycopg.sql import SQL, Composable, Composed, Literal

from windrow.database.queries import query
from windrow.settings import Settings
from windrow.table import quoted, unquoted

_PARTS: Final = re.compile(r'"(?:[^"]|"")*"')


@dataclass(frozen=True, slots=True)
class Tables:
    """The outbox and the tables beside it, as quoted identifiers for composed SQL."""

    outbox: SQL
    relay: SQL
    position: SQL
    dead_letter: SQL
    in_flight: SQL
    migration: SQL
    dialect: str = field(default="postgresql", kw_only=True)

    @classmethod
    def of(cls, settings: Settings) -> "Tables":
        return cls.beside(settings.outbox_table, settings.dialect)

    @classmethod
    def beside(cls, outbox: str, dialect: str = "postgresql") -> "Tables":
        def name(suffix: str = "") -> SQL:
            return SQL(quoted(outbox, suffix))

        beside = ("_relay", "_position", "_dead_letter", "_in_flight", "_migration")
        return cls(name(), *map(name, beside), dialect=dialect)

    @property
    def named(self) -> dict[str, SQL]:
        """The tables by what they are."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "dialect"}

    def slot(self, number: int) -> SQL:
        """One of the slots of a partitioned outbox."""
        unclosed = self.outbox.as_string().removesuffix('"')
        return SQL(f'{unclosed}_slot_{number}"')

    def fill(self, template: SQL, **fragments: Composable) -> Composed:
        return template.format(**self.named, label=self.literal(self.outbox.as_string()), **fragments)

    def query(self, file: str, name: str, /, **fragments: Composable) -> Composed:
        """A named query in the tables' dialect, filled in."""
        return self.fill(query(file, name, self.dialect), **fragments)

    def literal(self, value: str | int | UUID | timedelta) -> Composable:
        """A value as a part of a statement."""
        return Literal(value) if self.dialect == "postgresql" else _mysql_literal(value)


def names(table: SQL) -> dict[str, str | None]:
    """A table's name for questions to the catalogue: whole and quoted, and in its parts."""
    identifier = table.as_string()
    *schema, name = (unquoted(each) for each in _PARTS.findall(identifier))
    return {"table": identifier, "schema": schema[0] if schema else None, "name": name}


def _mysql_literal(value: str | int | UUID | timedelta) -> SQL:
    match value:
        case int():
            return SQL(str(value))
        case UUID():
            return SQL(f"X'{value.hex}'")
        case timedelta():
            return SQL(f"INTERVAL {value // timedelta(microseconds=1)} MICROSECOND")
        case _:
            escaped = value.replace("\\", "\\\\").replace("'", "''")
            return SQL(f"'{escaped}'")
