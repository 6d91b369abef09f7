"""Columns of PostgreSQL's types as parts of a message, and parts of a message as what such columns hold.

Part of `database/custom.py`, which says what each of them is for, and of the layouts in `database/layouts.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Final

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
NOTHING: Final[Mapping[str, str]] = {
    "key": "NULL::bytea",
    "partition": "NULL::integer",
    "timestamp": "NULL::timestamptz",
}
AS_JSON: Final = (
    "(SELECT jsonb_object_agg(name, convert_from(content, 'UTF8'))"
    " FROM unnest(header_keys, header_values) AS header (name, content))"
)
"""Headers as a JSON object."""


def as_topic(expression: str) -> str:
    return f"left(coalesce({expression}, ''), 249)"


def as_bytes(column: str, kind: str) -> str:
    return column if kind == "bytea" else f"convert_to({column}::text, 'UTF8')"


def length_of(column: str, kind: str) -> str:
    return f"coalesce(octet_length({column if kind == 'bytea' else f'{column}::text'}), 0)"


def from_bytes(expression: str, kind: str) -> str:
    return expression if kind == "bytea" else f"convert_from({expression}, 'UTF8')::{kind}"


def as_time(column: str) -> str:
    return f"{column}::timestamptz"


def as_partition(column: str) -> str:
    return f"{column}::integer"


def json_names(column: str) -> str:
    """The names of the headers in a JSON object, of type jsonb.

    What is neither an object nor null gets a name without a content, and becomes a dead letter as malformed rows do.
    """
    return (
        f"CASE jsonb_typeof(coalesce({column}, 'null'))"
        f" WHEN 'object' THEN ARRAY(SELECT jsonb_object_keys({column}))"
        " WHEN 'null' THEN '{}' ELSE ARRAY['headers'] END"
    )


def json_contents(column: str) -> str:
    """Their contents, in the order of the names."""
    each = f"jsonb_each_text({column}) AS header (name, content)"
    contents = f"ARRAY(SELECT convert_to(content, 'UTF8') FROM {each})"  # noqa: S608 - a name of ours, or quoted
    return f"CASE WHEN jsonb_typeof({column}) = 'object' THEN {contents} ELSE '{{}}' END"


def headers(named: Mapping[str, str], kind_of: Mapping[str, str]) -> tuple[str, str]:
    if column := named.get("headers"):
        return json_names(column), json_contents(column)
    if "headerKeys" not in named:
        return "'{}'::text[]", "'{}'::bytea[]"
    names, contents = named["headerKeys"], named["headerValues"]
    if kind_of["headerValues"] != "bytea[]":
        contents = f"ARRAY(SELECT convert_to(content, 'UTF8') FROM unnest({contents}) AS content)"  # noqa: S608 - quoted
    return f"coalesce({names}, '{{}}')::text[]", f"coalesce({contents}, '{{}}')"


def headers_written(kind_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "headers", AS_JSON
    yield "headerKeys", "header_keys"
    if kind_of.get("headerValues") == "bytea[]":
        yield "headerValues", "header_values"
    else:
        yield "headerValues", "ARRAY(SELECT convert_from(content, 'UTF8') FROM unnest(header_values) AS content)"
