"""Columns of MySQL's and MariaDB's types as parts of a message, and parts of a message as what such columns hold.

Part of `database/custom.py`, which says what each of them is for, and of the layouts in `database/mysql_layouts.py`.
Text becomes UTF-8, whatever its column's character set. There are no arrays: headers are two JSON arrays or, without
names, one JSON object (`windrow.headers`). JSON is longtext on MariaDB, and may be none there: then it is quoted, which
is no headers either, and the row becomes a dead letter.
"""

from collections.abc import Iterator, Mapping
from typing import Final

_TEXT: Final = ("varchar", "char", "text", "mediumtext", "longtext", "tinytext")
_BYTES: Final = ("varbinary", "binary", "blob", "mediumblob", "longblob", "tinyblob")
_TIME: Final = ("datetime", "timestamp")
_JSON: Final = ("json", "longtext")
KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("bigint", "int"),
    "createTime": _TIME,
    "topic": _TEXT,
    "value": (*_TEXT, *_BYTES, "json"),
    "key": (*_TEXT, *_BYTES, "uuid", "bigint", "int"),
    "headers": _JSON,
    "headerKeys": _JSON,
    "headerValues": _JSON,
    "partition": ("int", "mediumint", "smallint", "tinyint"),
    "timestamp": _TIME,
    "processed": _TIME,
    "mark": ("binary",),
}
NOTHING: Final[Mapping[str, str]] = {"key": "NULL", "partition": "NULL", "timestamp": "NULL"}


def as_text(expression: str) -> str:
    """Any column's content as text in UTF-8."""
    return f"convert({expression} USING utf8mb4)"


def as_topic(expression: str) -> str:
    return f"left(coalesce({as_text(expression)}, ''), 249)"


def as_bytes(column: str, kind: str) -> str:
    return column if kind in _BYTES else f"cast({as_text(column)} AS binary)"


def length_of(column: str, kind: str) -> str:  # noqa: ARG001 - any has a length
    return f"coalesce(octet_length({column}), 0)"


def from_bytes(expression: str, kind: str) -> str:
    return expression if kind in _BYTES else as_text(expression)


def as_time(column: str) -> str:
    return column


def as_partition(column: str) -> str:
    return column


def headers(named: Mapping[str, str], kind_of: Mapping[str, str]) -> tuple[str, str]:
    if "headers" in named:
        return "NULL", _json(named["headers"], kind_of["headers"])
    if "headerKeys" not in named:
        return "NULL", "NULL"
    names, contents = (_json(named[each], kind_of[each]) for each in ("headerKeys", "headerValues"))
    return names, contents


def headers_written(kind_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:  # noqa: ARG001 - JSON, all of them
    yield "headers", "header_values"
    yield "headerKeys", "header_keys"
    yield "headerValues", "header_values"


def _json(column: str, kind: str) -> str:
    if kind == "json":
        return column
    text = as_text(column)
    return f"if(json_valid({text}) = 0, json_quote({text}), {text})"
