"""A layout of one's own: the settings name the columns, the catalogue tells their types, and both have to fit.

Names come from outside: they are quoted wherever they go into a statement. What differs between databases are the
types, and how they are converted.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from windrow.database import mysql_conversions, postgres_conversions
from windrow.database.layouts import Columns, Layout
from windrow.table import quoted_column


class Conversions(Protocol):
    """Between columns of a database's types and the parts of a message, as SQL expressions."""

    @property
    def KINDS(self) -> Mapping[str, tuple[str, ...]]:  # noqa: N802 - a module's constant
        """The types that a column may have, by windrow's name of it."""

    @property
    def NOTHING(self) -> Mapping[str, str]:  # noqa: N802
        """What is read where there is no such column."""

    def as_topic(self, expression: str) -> str:
        """A topic's name; without one, or with one that no topic can have, a row becomes a dead letter as others do."""

    def as_bytes(self, column: str, kind: str) -> str:
        """A column of this type as bytes, text in UTF-8."""

    def length_of(self, column: str, kind: str) -> str:
        """How many bytes that is, near enough."""

    def from_bytes(self, expression: str, kind: str) -> str:
        """Bytes as what a column of this type holds."""

    def as_time(self, column: str) -> str: ...

    def as_partition(self, column: str) -> str: ...

    def headers(self, named: Mapping[str, str], kind_of: Mapping[str, str]) -> tuple[str, str]:
        """Names and contents of headers, out of the columns and types that windrow's names stand for."""

    def headers_written(self, kind_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """By windrow's names, what goes to columns of these types."""


CONVERSIONS: Final[Mapping[str, Conversions]] = {"postgresql": postgres_conversions, "mysql": mysql_conversions}
"""By dialect."""


def misfits(columns: Mapping[str, str], kinds: Mapping[str, str], dialect: str) -> Iterator[str]:
    """What is wrong with a table of these columns and types, one sentence for each column that was named."""
    fitting = CONVERSIONS[dialect].KINDS
    for name, column in columns.items():
        kind, wanted = kinds.get(column), " or ".join(fitting[name])
        if kind is None and name != "mark":  # which windrow adds
            yield f"{column} ({name}) is missing; it has to be {wanted}"
        elif kind is not None and kind not in fitting[name]:
            yield f"{column} ({name}) is {kind}; it has to be {wanted}"


def custom(columns: Mapping[str, str], kinds: Mapping[str, str], dialect: str) -> Layout:
    """The layout of a table with these columns, by windrow's names, and of these types."""
    sql = CONVERSIONS[dialect]
    named = {name: quoted_column(column) for name, column in columns.items()}
    kind_of = {name: kinds.get(column, "text") for name, column in columns.items()}
    key, value = named.get("key"), named["value"]
    names, contents = sql.headers(named, kind_of)
    sizes = [sql.length_of(each, kind_of[name]) for name, each in (("key", key), ("value", value)) if each]
    read = Columns(
        id=named["id"],
        create_time=sql.as_time(named["createTime"]),
        topic=sql.as_topic(named["topic"]),
        key=sql.as_bytes(key, kind_of["key"]) if key else sql.NOTHING["key"],
        value=sql.as_bytes(value, kind_of["value"]),
        header_keys=names,
        header_values=contents,
        partition=sql.as_partition(named["partition"]) if "partition" in named else sql.NOTHING["partition"],
        timestamp=sql.as_time(named["timestamp"]) if "timestamp" in named else sql.NOTHING["timestamp"],
        mark=named.get("mark", "mark"),
        size=" + ".join(sizes),
    )
    return Layout(
        "the settings'",
        frozenset(columns.values()),
        read,
        {named[name]: expression for name, expression in _written(sql, kind_of) if name in named},
        processed=named.get("processed"),
        dialect=dialect,
    )


def _written(sql: Conversions, kind_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "createTime", "create_time"
    yield "topic", "topic"
    yield "key", sql.from_bytes('"key"', kind_of.get("key", "text"))
    yield "value", sql.from_bytes("value", kind_of["value"])
    yield from sql.headers_written(kind_of)
    yield "partition", '"partition"'
    yield "timestamp", '"timestamp"'
