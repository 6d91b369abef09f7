"""Named queries: SQL is written as SQL, in `.sql` files beside this module, and fetched by file and name.

A query starts with `-- name: …` and a line that describes it. `{braces}` are identifiers and fragments, filled in
as composed SQL; `%(names)s` are parameters. Each dialect has files of its own with the same names in them, where it has
a use for them: who asks for a query by its name asks for the same thing in either. Where rows are sorted by their id,
the first of what is selected, `ORDER BY` says 1: a table of one's own may call its id `size`, and that name is taken.
"""

import re
from functools import cache
from importlib.resources import files

from psycopg.sql import SQL

_NAME = re.compile(r"^-- name: (\w+)\n(?:--.*\n)*", re.MULTILINE)


@cache
def query(file: str, name: str, dialect: str = "postgresql") -> SQL:
    """The query `name` of `sql/<dialect>/<file>.sql`."""
    return _queries(file, dialect)[name]


@cache
def _queries(file: str, dialect: str) -> dict[str, SQL]:
    text = files(__package__).joinpath("sql", dialect, f"{file}.sql").read_text()
    parts = _NAME.split(text)[1:]
    # The text comes from a file of this package, not from outside.
    return {name: SQL(body.strip()) for name, body in zip(parts[::2], parts[1::2], strict=True)}
