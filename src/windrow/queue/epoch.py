"""One epoch of a tracker: a Spark job whose tasks stay resident, a duty for each markers partition.

The driver only starts the job and reads the reports; markers, copies and ticks go between the executors and Kafka.
Where there are fewer slots than partitions, a task has several duties. CLOSE markers end them in order.
"""

import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Final
from uuid import UUID

import pyarrow as pa
from confluent_kafka import KafkaException, Producer
from pyspark.sql import SparkSession

from windrow.errors import Interrupted
from windrow.kafka.clients import client_config, error_of, sent
from windrow.observe.logs import configure_task
from windrow.queue.duty import Duty, DutyReport
from windrow.queue.marker import encode
from windrow.queue.marker_pb2 import Marker
from windrow.queue.mover import Tally
from windrow.queue.settings import QueueSettings
from windrow.spark import garbage

_ANSWER_WITHIN: Final = 5.0
_COUNTS: Final = [each.name for each in dataclasses.fields(Tally)]
REPORT: Final = ", ".join(["partition int", "ending string", *(f"{name} long" for name in _COUNTS)])
REPORT_SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("ending", pa.string()),
        *(pa.field(name, pa.int64()) for name in _COUNTS),
    ]
)
"""A duty's report as a row, in Spark's words and in Arrow's."""


def run_epoch(  # noqa: PLR0913, PLR0917 - all that makes an epoch
    spark: SparkSession, settings: QueueSettings, epoch: UUID, membership: bytes, partitions: int, tasks: int
) -> list[DutyReport]:
    """Run the job to its end and return what each duty reports."""
    task = _task(settings, epoch, membership)
    frame = spark.range(0, partitions, 1, min(tasks, partitions)).mapInArrow(task, REPORT)
    rows = (row.asDict() for row in frame.collect())
    return [DutyReport(row.pop("partition"), row.pop("ending"), Tally(**row)) for row in rows]


def close_epoch(settings: QueueSettings, epoch: UUID, partitions: int) -> None:
    """Have all duties of an epoch end, as soon as they have read what was written before."""
    content = encode(Marker(type=Marker.CLOSE, epoch=epoch.bytes))
    producer = Producer(client_config(settings, {"enable.idempotence": True, "linger.ms": 0}))
    try:
        for partition in range(partitions):
            sent(producer, _ANSWER_WITHIN, settings.marker_topic, value=content, partition=partition)
    except KafkaException as exception:
        raise Interrupted(f"an epoch could not be closed: {error_of(exception).str()}") from exception


def warm_up(spark: SparkSession) -> None:
    """Have Python workers that have imported this module, so that the tasks of an epoch start at once."""
    spark.range(0, 2, 1, 2).mapInArrow(_no_duties, REPORT).collect()


def _no_duties(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Spark keeps a worker only if its task has read its input to the end."""
    for _ in batches:
        yield from ()


def _task(
    settings: QueueSettings, epoch: UUID, membership: bytes
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        mine = [partition for batch in batches for partition in batch.column("id").to_pylist()]
        if not mine:
            return
        garbage.rarely()
        configure_task()
        over = threading.Event()
        with ThreadPoolExecutor(len(mine)) as threads:
            duties = [threads.submit(Duty(settings, each, epoch, membership, over).run) for each in mine]
            try:
                wait(duties, return_when=FIRST_EXCEPTION)
            finally:
                over.set()  # what went wrong with one ends the others too, and the task with it
            rows = [_row(duty.result()) for duty in duties]
        yield pa.RecordBatch.from_pylist(rows, schema=REPORT_SCHEMA)

    return task


def _row(report: DutyReport) -> dict[str, object]:
    counts = dataclasses.asdict(report.tally)
    return {"partition": report.partition, "ending": report.ending, **counts}
