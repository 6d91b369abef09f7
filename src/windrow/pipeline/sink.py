"""The format `windrow-kafka`: rows as Kafka records, each partition of a write in one transaction.

With its records a task commits which write they belong to (a streaming query and its batch, or a batch job's id), as
the committed offset of a consumer group of the partition's own. A task that runs again, after the loss of its executor
or in a restarted query, finds its write committed there, and writes nothing.

Invariant: a partition of a write is in Kafka once, for consumers that read committed. The transactional id is that of
the query's partition, so that a task fences the one that it repeats before it looks.

This holds as long as a batch that is repeated has its rows in the same partitions. A digest of what was written is
committed, too: where it differs, the write fails rather than lose rows.
"""

import dataclasses
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from windrow.errors import PositionForeign, RelayFenced
from windrow.kafka.clients import create_topic, position_reader
from windrow.pipeline.options import settings_from
from windrow.publish.rows import check_columns, records
from windrow.publish.transaction import TransactionalPublisher
from windrow.record import Record, Shard
from windrow.settings import Settings

_WRITE_ID: Final = "writeId"
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


class KafkaSink(DataSource):
    """`frame.write.format("windrow-kafka")` and `frame.writeStream.format("windrow-kafka")`."""

    @classmethod
    def name(cls) -> str:
        return "windrow-kafka"

    def writer(self, schema: StructType, overwrite: bool) -> "BatchWriter":  # noqa: ARG002, FBT001 - Spark's signature
        return BatchWriter(self._settings(schema), self.options.get(_WRITE_ID) or uuid4().hex)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamWriter":  # noqa: ARG002, FBT001, N802 - the same
        return StreamWriter(self._settings(schema))

    def _settings(self, schema: StructType) -> Settings:
        check_columns({field.name: field.dataType.simpleString() for field in schema})
        settings = settings_from(self.options, ours=frozenset({_WRITE_ID}), unused="WINDROW_DATA_SOURCE")
        create_topic(settings, settings.position_topic, 1)
        return settings


@dataclass
class Written(WriterCommitMessage):
    """How many records a task has published."""

    records: int


class BatchWriter(DataSourceArrowWriter):
    """Writes of one batch job, told apart by an id."""

    def __init__(self, settings: Settings, write_id: str) -> None:
        self._settings, self._write = settings, Write(write_id, 0)
        _own(settings, self._write, 0)  # raises where no names can be made of the id

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self._settings, self._write, _task().partitionId(), iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes of one streaming query, told apart by the number of the batch."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        task = _task()
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        if not query or not batch:
            raise RuntimeError("Spark does not say which query and batch this is")
        return _write(self._settings, Write(query, int(batch)), task.partitionId(), iterator)


@dataclass(frozen=True, slots=True)
class Write:
    """What a task's rows belong to."""

    query: str
    batch: int


class Digest:
    """What was written: how many records, and a sum over their keys that does not depend on their order."""

    def __init__(self, batch: int) -> None:
        self._batch, self._records, self._keys = batch, 0, 0

    def over(self, pages: Iterable[list[Record]]) -> Iterator[list[Record]]:
        """Hand the pages through, and take them into account."""
        for page in pages:
            self._records += len(page)
            self._keys = (self._keys + sum(zlib.crc32(each.key or b"") for each in page)) % 2**32
            yield page

    def encode(self) -> str:
        return json.dumps({"v": 1, "batch": self._batch, "records": self._records, "keys": self._keys})


def _own(settings: Settings, write: Write, partition: int) -> Settings:
    """The settings of a partition: a transactional id and a group of its own."""
    name = f"{settings.name}.{write.query}.{partition}"
    return dataclasses.replace(settings, name=name, leader_group_id=f"windrow.{name}")


def _write(settings: Settings, write: Write, partition: int, batches: Iterator[pa.RecordBatch]) -> Written:
    settings = _own(settings, write, partition)
    digest = Digest(write.batch)
    pages = digest.over(records(batch) for batch in batches)
    first = next(pages, None)
    if first is None:
        return Written(0)
    with closing(position_reader(settings)) as member:
        membership: bytes = member.consumer_group_metadata()
    with closing(TransactionalPublisher(settings, Shard(0, 1), repeatable=False)) as publisher:
        publisher.open(membership, None)
        if publisher.committed and not _precedes(publisher.committed.position, write):
            for _ in pages:
                pass
            return _repeated(publisher.committed.position, digest, write)
        return Written(publisher.publish_pages(_chain(first, pages), digest))


def _chain(first: list[Record], rest: Iterator[list[Record]]) -> Iterator[list[Record]]:
    yield first
    yield from rest


def _precedes(committed: str, write: Write) -> bool:
    """Whether the partition's last write is an earlier one."""
    batch: int = _decoded(committed)["batch"]
    if batch > write.batch:
        raise RelayFenced(f"query {write.query} is at batch {batch} already: another run of it has passed this one")
    return batch < write.batch


def _repeated(committed: str, digest: Digest, write: Write) -> Written:
    """Nothing to do, if what is there is what would be written."""
    if committed != digest.encode():
        raise PositionForeign(
            f"batch {write.batch} of query {write.query} was written in part before, with its rows in other partitions"
            f": {committed} is there, {digest.encode()} would be written. Repartition by a number and a key before"
            " writing, and set spark.sql.adaptive.streaming.stateless.enabled=false"
        )
    return Written(0)


def _decoded(committed: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(committed)
    return found


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise RuntimeError("this runs inside Spark's tasks only")
    return task
