"""A streaming query of a user's own, outbox to Kafka, in a process of its own; slow enough to be killed in mid-batch.

Run as a script with its options as JSON: those of the source, those of the sink, and the checkpoint.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from fix_pipeline import Pipeline
from windrow.capture.span import SPARK_SCHEMA
from windrow.pipeline import register
from windrow.spark.session import session

SMALL_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "50"}


@contextmanager
def streaming(pipeline: Pipeline, checkpoint: Path, mark: str, talk: Path) -> Iterator[subprocess.Popen[str]]:
    source = {
        "dataSource": pipeline.settings.data_source,
        "outboxTable": pipeline.settings.outbox_table,
        "name": "stream",
        "shards": "2",
        "maxRowsPerTrigger": "300",
    }
    sink = {f"kafka.{name}": value for name, value in pipeline.settings.base_kafka_config.items()}
    with (
        talk.open("a") as stderr,
        subprocess.Popen(
            [sys.executable, __file__, json.dumps([source, sink, str(checkpoint)])],
            env={**os.environ, "WINDROW_TEST_MARK": mark, "PYTHONPATH": str(Path(__file__).parent)},
            stdin=subprocess.DEVNULL,
            stderr=stderr,
            text=True,
            start_new_session=True,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch
        time.sleep(0.3)


def main(source: dict[str, str], sink: dict[str, str], checkpoint: str) -> None:
    spark = session({"master": "local[2]", **SMALL_BATCHES}, "stream")
    register(spark)
    rows = spark.readStream.format("outbox").options(**source).load().mapInArrow(slowly, SPARK_SCHEMA)
    writer = rows.drop("create_time").writeStream.format("windrow-kafka").options(**sink)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
