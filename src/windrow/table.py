"""Names of tables and columns: the one place where a name from the settings becomes an SQL identifier.

A table's name is `table` or `schema.table`; the tables beside an outbox carry its name with a suffix. Names go through
the templates of drivers, so that they must not have what those take for a placeholder.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from windrow.errors import SettingsInvalid

Dialect: TypeAlias = Literal["postgresql", "mysql"]
"""Whose SQL a database speaks; MariaDB speaks MySQL's."""
_LONGEST: Final = 63
_LONGEST_TABLE: Final = _LONGEST - len("_dead_letter")
_TAKEN: Final = frozenset({"release", "chosen_id", "letter", "behind", "aside", "aside_behind"})
"""Names that statements give to columns of windrow's own, beside those of the outbox."""
_UNFIT: Final = re.compile(r"[%{}\0\ud800-\udfff]")


def quoted(name: str, suffix: str = "", quote: str = '"') -> str:
    """The name as a quoted identifier: `billing.outbox` becomes `"billing"."outbox"`."""
    if mistakes := [f"outboxTable: {remedy}" for remedy in remedies(name)]:
        raise SettingsInvalid(mistakes)
    return ".".join(f"{quote}{part.replace(quote, 2 * quote)}{quote}" for part in f"{name}{suffix}".split("."))


def remedies(name: str) -> Iterator[str]:
    """What is to be done before the name can be used."""
    *schema, table = name.split(".")
    if len(schema) > 1 or not all([*schema, table]):
        yield f"give a name as table or schema.table, not {name!r}"
    elif _UNFIT.search(name):
        yield f"give a name without %, {{, }}, NUL and broken characters, not {name!r}"
    elif _bytes(table) > _LONGEST_TABLE:
        yield f"give the table a name of {_LONGEST_TABLE} bytes at most, not of {_bytes(table)}"
    elif schema and _bytes(schema[0]) > _LONGEST:
        yield f"give the schema a name of {_LONGEST} bytes at most, not of {_bytes(schema[0])}"


def quoted_column(name: str) -> str:
    """A column's name as a quoted identifier."""
    if mistakes := [f"columns: {remedy}" for remedy in column_remedies(name)]:
        raise SettingsInvalid(mistakes)
    return '"{}"'.format(name.replace('"', '""'))


def unquoted(identifier: str) -> str:
    """The name that an identifier stands for, quoted or not."""
    return identifier[1:-1].replace('""', '"') if identifier.startswith('"') else identifier


def column_remedies(name: str) -> Iterator[str]:
    """What is to be done before the name can be used for a column."""
    if _UNFIT.search(name):
        yield f"give a name without %, {{, }}, NUL and broken characters, not {name!r}"
    elif not name or _bytes(name) > _LONGEST:
        yield f"give a column's name of 1 to {_LONGEST} bytes, not {name!r}"
    elif name in _TAKEN:
        yield f"give a column of another name than {name!r}, which windrow's statements use themselves"


def _bytes(name: str) -> int:
    return len(name.encode())
