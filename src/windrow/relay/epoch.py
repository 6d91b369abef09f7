"""One epoch: a Spark job whose tasks stay resident, one a shard, until the epoch is over.

The driver only starts the job and reads the reports; pages go from the database to Kafka on the executors. What
travels to them is the settings; connections are opened there. Where there are fewer slots than shards, a task runs
several shards.
"""

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Final
from uuid import UUID

import pyarrow as pa
from pyspark.sql import SparkSession

from windrow.observe.logs import configure_task
from windrow.observe.provider import flush
from windrow.record import Shard
from windrow.relay.shard import ShardLoop, ShardReport
from windrow.settings import Settings
from windrow.spark import garbage

REPORT: Final = "shard int, ending string, records long, transactions long, dead_lettered long, error string"
REPORT_SCHEMA: Final = pa.schema(
    [
        pa.field("shard", pa.int32()),
        pa.field("ending", pa.string()),
        pa.field("records", pa.int64()),
        pa.field("transactions", pa.int64()),
        pa.field("dead_lettered", pa.int64()),
        pa.field("error", pa.string()),
    ]
)
"""A shard's report as a row, in Spark's words and in Arrow's."""


def run_epoch(  # noqa: PLR0913, PLR0917 - all that makes an epoch
    spark: SparkSession, settings: Settings, epoch: UUID, shards: int, tasks: int, target: str | None = None
) -> list[ShardReport]:
    """Run the job to its end and return what each shard reports; with a target, it ends when all stand there."""
    task = _shard_task(settings, epoch, shards, target)
    frame = spark.range(0, shards, 1, min(tasks, shards)).mapInArrow(task, REPORT)
    return [ShardReport(**row.asDict()) for row in frame.collect()]


def warm_up(spark: SparkSession) -> None:
    """Have Python workers that have imported this module, so that the tasks of an epoch and its heir start at once."""
    spark.range(0, 2, 1, 2).mapInArrow(_no_shards, REPORT).collect()


def _no_shards(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Spark keeps a worker only if its task has read its input to the end."""
    for _ in batches:
        yield from ()


def _shard_task(
    settings: Settings, epoch: UUID, shards: int, target: str | None
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def shard_task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = [Shard(index, shards) for batch in batches for index in batch.column("id").to_pylist()]
        if not mine:
            return
        garbage.rarely()
        configure_task()
        with ThreadPoolExecutor(len(mine)) as threads:
            reports = threads.map(lambda shard: ShardLoop(settings, shard, epoch, target).run(), mine)
            rows = [dataclasses.asdict(report) for report in reports]
        flush(settings.tracing)
        yield pa.RecordBatch.from_pylist(rows, schema=REPORT_SCHEMA)

    return shard_task
