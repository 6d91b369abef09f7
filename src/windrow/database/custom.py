"""A layout of one's own: the settings name the columns, the catalogue tells their types, and both have to fit.

Names come from outside: they are quoted wherever they go into a statement.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from windrow.database import layouts
from windrow.database.layouts import Columns, Layout
from windrow.table import quoted_column

_TEXT: Final = ("text", "character varying")
_TEXTS: Final = ("text[]", "character varying[]")
_TIME: Final = ("timestamp with time zone", "timestamp without time zone")
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("bigint", "integer"),
    "createTime": _TIME,
    "topic": _TEXT,
    "value": (*_TEXT, "bytea", "json", "jsonb"),
    "key": (*_TEXT, "bytea", "uuid", "bigint", "integer"),
    "headers": ("jsonb",),  # json may hold what cannot be read, and would hold up the shard
    "headerKeys": _TEXTS,
    "headerValues": (*_TEXTS, "bytea[]"),
    "partition": ("integer", "smallint"),
    "timestamp": _TIME,
    "processed": _TIME,
    "mark": ("uuid",),
}
"""The types that a column may have, by windrow's name of it."""


def misfits(columns: Mapping[str, str], kinds: Mapping[str, str]) -> Iterator[str]:
    """What is wrong with a table of these columns and types, one sentence for each column that was named."""
    for name, column in columns.items():
        kind, wanted = kinds.get(column), " or ".join(KINDS[name])
        if kind is None and name != "mark":  # which windrow adds
            yield f"{column} ({name}) is missing; it has to be {wanted}"
        elif kind is not None and kind not in KINDS[name]:
            yield f"{column} ({name}) is {kind}; it has to be {wanted}"


def custom(columns: Mapping[str, str], kinds: Mapping[str, str]) -> Layout:
    """The layout of a table with these columns, by windrow's names, and of these types."""
    named = {name: quoted_column(column) for name, column in columns.items()}
    kind_of = {name: kinds.get(column, "text") for name, column in columns.items()}
    key, value = named.get("key"), named["value"]
    names, contents = _headers(named, kind_of)
    sizes = [layouts.length_of(each, kind_of[name]) for name, each in (("key", key), ("value", value)) if each]
    read = Columns(
        id=named["id"],
        create_time=f"{named['createTime']}::timestamptz",
        topic=layouts.as_topic(named["topic"]),
        key=layouts.as_bytes(key, kind_of["key"]) if key else "NULL::bytea",
        value=layouts.as_bytes(value, kind_of["value"]),
        header_keys=names,
        header_values=contents,
        partition=f"{named['partition']}::integer" if "partition" in named else "NULL::integer",
        timestamp=f"{named['timestamp']}::timestamptz" if "timestamp" in named else "NULL::timestamptz",
        mark=named.get("mark", "mark"),
        size=" + ".join(sizes),
    )
    written = {named[name]: expression for name, expression in _written(kind_of) if name in named}
    return Layout("the settings'", frozenset(columns.values()), read, written, processed=named.get("processed"))


def _headers(named: Mapping[str, str], kind_of: Mapping[str, str]) -> tuple[str, str]:
    if headers := named.get("headers"):
        return layouts.json_names(headers), layouts.json_contents(headers)
    if "headerKeys" not in named:
        return "'{}'::text[]", "'{}'::bytea[]"
    names, contents = named["headerKeys"], named["headerValues"]
    if kind_of["headerValues"] != "bytea[]":
        contents = f"ARRAY(SELECT convert_to(content, 'UTF8') FROM unnest({contents}) AS content)"  # noqa: S608 - quoted
    return f"coalesce({names}, '{{}}')::text[]", f"coalesce({contents}, '{{}}')"


def _written(kind_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "createTime", "create_time"
    yield "topic", "topic"
    yield "key", layouts.from_bytes("key", kind_of.get("key", "text"))
    yield "value", layouts.from_bytes("value", kind_of["value"])
    yield "headers", layouts.AS_JSON
    yield "headerKeys", "header_keys"
    if kind_of.get("headerValues") == "bytea[]":
        yield "headerValues", "header_values"
    else:
        yield "headerValues", "ARRAY(SELECT convert_from(content, 'UTF8') FROM unnest(header_values) AS content)"
    yield "partition", "partition"
    yield "timestamp", "timestamp"
