"""Table layouts on MySQL and MariaDB, as `database/layouts.py` has those on PostgreSQL.

There are no arrays: names and contents of headers are two JSON arrays (`windrow.headers`). Names that are words of SQL
there are quoted.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from windrow.database import layouts
from windrow.database.layouts import ROUTED_TO, Columns, Family, Layout
from windrow.database.mysql_conversions import as_bytes, as_text, as_topic, from_bytes, length_of

_SIZE: Final = (
    'coalesce(octet_length(value), 0) + coalesce(octet_length("key"), 0) + coalesce(octet_length(header_values), 0)'
)
_WRITTEN: Final = (
    *("create_time", "topic", '"key"', "value", "header_keys", "header_values", '"partition"', '"timestamp"'),
)

OWN: Final = Layout(
    layouts.OWN.name,
    layouts.OWN.told_by,
    Columns(key='"key"', partition='"partition"', timestamp='"timestamp"', size=_SIZE),
    {name: name for name in _WRITTEN},
    dialect="mysql",
)
DISPATCHED: Final = replace(
    OWN,
    name=layouts.DISPATCHED.name,
    told_by=layouts.DISPATCHED.told_by,
    processed=layouts.DISPATCHED.processed,
)


def debezium(kinds: Mapping[str, str]) -> Layout:
    """The layout of Debezium's outbox event router, as on PostgreSQL; a UUID in binary is published as text."""
    number, key, payload = (
        kinds.get(name, kind) for name, kind in (("id", "char"), ("aggregateid", "varchar"), ("payload", "json"))
    )
    return Layout(
        layouts.DEBEZIUM.name,
        layouts.DEBEZIUM.told_by,
        Columns(
            id="windrow_id",
            create_time="windrow_time",
            topic=as_topic(f"concat('{ROUTED_TO}', aggregatetype)"),
            key=as_bytes("aggregateid", key),
            value=as_bytes("payload", payload),
            header_keys="""'["id"]'""",
            header_values=f"json_array({_uuid_as_text('id') if number == 'binary' else as_text('id')})",
            partition="NULL",
            timestamp="NULL",
            size=f"{length_of('payload', payload)} + {length_of('aggregateid', key)}",
        ),
        {
            "id": "unhex(replace(uuid(), '-', ''))" if number == "binary" else "uuid()",
            "aggregatetype": f"substr(topic, {len(ROUTED_TO) + 1})",
            "aggregateid": from_bytes('"key"', key),
            "type": "''",
            "payload": from_bytes("value", payload),
        },
        added={
            "windrow_id": "bigint NOT NULL AUTO_INCREMENT UNIQUE",
            "windrow_time": "datetime(6) NOT NULL DEFAULT (utc_timestamp(6))",
        },
        dialect="mysql",
    )


def _uuid_as_text(column: str) -> str:
    text = f"lower(hex({column}))"
    for place in (9, 14, 19, 24):
        text = f"insert({text}, {place}, 0, '-')"
    return text


FAMILY: Final = Family(DISPATCHED, {"windrow": OWN, "debezium": debezium({})}, debezium)
