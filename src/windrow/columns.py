"""Records in columns, as they come from the database when there are many, and go to Kafka.

A record is made of them only where somebody looks at it.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Self, overload

import pyarrow as pa

from windrow.record import Record


class Columns(Sequence[Record]):
    """Arrow's columns, named as the fields of a record."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    @classmethod
    def of(cls, records: Sequence[Record]) -> Self:
        """The records in columns, which they may be already."""
        if isinstance(records, cls):
            return records
        columns = zip(*records, strict=True)
        return cls(
            pa.record_batch(
                [pa.array(each, kind) for each, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA
            )
        )

    def __len__(self) -> int:
        count: int = self.batch.num_rows
        return count

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> list[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | list[Record]:
        if isinstance(place, slice):
            return self._records[place]
        return Record(*(column[place].as_py() for column in self.batch.columns))

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    @cached_property
    def _records(self) -> list[Record]:
        columns = [column.to_pylist() for column in self.batch.columns]
        return list(map(Record._make, zip(*columns, strict=True)))


SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "topic": pa.string(),
        "key": pa.binary(),
        "value": pa.binary(),
        "header_keys": pa.list_(pa.string()),
        "header_values": pa.list_(pa.binary()),
        "partition": pa.int32(),
        "timestamp": pa.int64(),
        "written_at": pa.int64(),
    }
)


def keys_of(records: Sequence[Record]) -> set[bytes | None]:
    if isinstance(records, Columns):
        return set(records.batch.column("key").unique().to_pylist())
    return {record.key for record in records}


def times_of(records: Sequence[Record]) -> list[int | None]:
    """When they were written, as far as it is known."""
    if isinstance(records, Columns):
        times: list[int | None] = records.batch.column("written_at").to_pylist()
        return times
    return [record.written_at for record in records]
