"""Rows of a Spark query, made into records: which columns there must be, and what they may hold."""

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from windrow.errors import SettingsInvalid
from windrow.record import Record

_TEXT: Final = ("string", "binary")
_HEADERS: Final = tuple(f"array<struct<key:string,value:{kind}>>" for kind in _TEXT)
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "topic": ("string",),
    "key": _TEXT,
    "value": _TEXT,
    "headers": _HEADERS,
    "partition": ("int",),
    "timestamp": ("timestamp",),
    "id": ("bigint",),
}


def check_columns(columns: Mapping[str, str], *required: str) -> None:
    """Raise unless rows of these columns, by name and Spark's type, can be made into records."""
    mistakes = [
        f"column {name}: is missing; it is {' or '.join(_COLUMNS[name])}"
        for name in ("topic", "value", *required)
        if name not in columns
    ]
    for name, kind in columns.items():
        if name not in _COLUMNS:
            mistakes.append(f"column {name}: not one of {', '.join(_COLUMNS)}; leave it out, or name it with AS")
        elif kind.replace(" ", "") not in _COLUMNS[name]:
            mistakes.append(f"column {name}: give {' or '.join(_COLUMNS[name])}, not {kind}; use CAST")
    if mistakes:
        raise SettingsInvalid(mistakes)


def records(batch: pa.RecordBatch) -> list[Record]:
    """The records of a batch of rows, in their order; without an id, it is 0."""
    nothing: list[Any] = [None] * batch.num_rows
    column = {name: batch.column(name).to_pylist() for name in batch.schema.names}
    headers = [each or [] for each in column.get("headers", nothing)]
    return [
        Record(number or 0, topic, _bytes(key), _bytes(value), names, contents, partition, _millis(timestamp))
        for number, topic, key, value, names, contents, partition, timestamp in zip(
            column.get("id", nothing),
            column["topic"],
            column.get("key", nothing),
            column["value"],
            ([pair["key"] for pair in pairs] for pairs in headers),
            ([_bytes(pair["value"]) for pair in pairs] for pairs in headers),
            column.get("partition", nothing),
            column.get("timestamp", nothing),
            strict=True,
        )
    ]


def _bytes(content: bytes | str | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def _millis(moment: Any) -> int | None:
    return None if moment is None else int(moment.timestamp() * 1000)
