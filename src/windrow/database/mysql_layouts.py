"""Table layouts on MySQL and MariaDB, as `database/layouts.py` has those on PostgreSQL.

There are no arrays: names and contents of headers are two JSON arrays (`windrow.headers`). Names that are words of SQL
there are quoted.
"""

from dataclasses import replace
from typing import Final

from windrow.database import layouts
from windrow.database.layouts import Columns, Family, Layout

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
FAMILY: Final = Family(DISPATCHED, {"windrow": OWN}, lambda _kinds: OWN)
