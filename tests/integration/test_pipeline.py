"""The outbox and Kafka as Spark formats: what is read, what is written, and that neither happens twice."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from fix_pipeline import Pipeline
from windrow.pipeline import register
from windrow.relay.purge import Purger

pytestmark = pytest.mark.timeout(300)

MOMENT = datetime(2020, 2, 29, 12, 30, 15, 123_000, tzinfo=UTC)


@pytest.fixture
def pipeline(make_pipeline: Callable[..., Pipeline]) -> Pipeline:
    made = make_pipeline(shards=2, purge={"interval": "1h"})
    register(made.spark)
    return made


def source(pipeline: Pipeline, **more: Any) -> dict[str, Any]:
    return {"dataSource": pipeline.settings.data_source, "outboxTable": pipeline.settings.outbox_table, **more}


def sink(pipeline: Pipeline, **more: Any) -> dict[str, Any]:
    kafka = {f"kafka.{name}": value for name, value in pipeline.settings.base_kafka_config.items()}
    return {**kafka, "name": f"{pipeline.settings.name}_sink", **more}


def stream(pipeline: Pipeline, **more: Any) -> DataFrame:
    options = source(pipeline, name="stream", shards=2, maxRowsPerTrigger=60, **more)
    return pipeline.spark.readStream.format("outbox").options(**options).load()


def run(frame: DataFrame, pipeline: Pipeline, checkpoint: Path) -> StreamingQuery:
    """Write all that is there now, in as many batches as it takes."""
    writer = frame.drop("create_time").writeStream.format("windrow-kafka").options(**sink(pipeline))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return query


def test_messages_are_read_and_written_as_they_are_and_once(pipeline: Pipeline) -> None:
    headers: list[tuple[str, bytes | str | None]] = [("b", b"\x00\xff"), ("a", "ü"), ("b", None)]
    pipeline.write(
        pipeline.message(bytes(range(256)), "key", headers=headers, partition=1, timestamp=MOMENT),
        pipeline.message(None, None),
    )
    frame = pipeline.spark.read.format("outbox").options(**source(pipeline, shards=3)).load()
    first, second = frame.orderBy("id").collect()
    assert (first.topic, bytes(first.key), bytes(first.value)) == (pipeline.topic, b"key", bytes(range(256)))
    assert [(pair.key, pair.value) for pair in first.headers] == [("b", b"\x00\xff"), ("a", "ü".encode()), ("b", None)]
    assert (second.key, second.value, second.headers, second.partition, second.timestamp) == (
        None,
        None,
        [],
        None,
        None,
    )
    for _ in range(2):  # the second time it is the same write
        writer = frame.drop("create_time").write.format("windrow-kafka").mode("append")
        writer.options(**sink(pipeline, writeId="once")).save()
    received = {message.key(): message for message in pipeline.received()}
    assert len(pipeline.received()) == 2
    assert (received[b"key"].value(), received[b"key"].partition()) == (bytes(range(256)), 1)
    assert received[b"key"].timestamp()[1] == int(MOMENT.timestamp() * 1000)
    assert (received[b"key"].headers() or [])[:3] == [("b", b"\x00\xff"), ("a", "ü".encode()), ("b", None)]
    assert received[None].value() is None


def test_stream_goes_on_from_its_checkpoint_and_holds_back_the_purge(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.write(*(pipeline.message(f"{number}", f"{number % 7}") for number in range(200)))
    query = run(stream(pipeline), pipeline, tmp_path)
    assert len(query.recentProgress) >= 4
    pipeline.write(*(pipeline.message(f"{number}", f"{number % 7}") for number in range(200, 300)))
    with pipeline.relay() as relay:  # it publishes all of it, to the same topic
        pipeline.wait_published(relay, 300)
    purged = sum(Purger(pipeline.settings).purge())
    assert purged <= 200
    with pipeline.connect() as slow:
        pipeline.outbox.write(slow, pipeline.message("late", "late"))
        run(stream(pipeline), pipeline, tmp_path)
        slow.commit()
    run(stream(pipeline), pipeline, tmp_path)
    assert purged + sum(Purger(pipeline.settings).purge()) >= 200
    own = ("x-source", f"{pipeline.settings.name}_sink".encode())
    of_stream = [message for message in pipeline.received() if own in (message.headers() or [])]
    assert len(of_stream) == 301
    for key in range(7):
        ours = [int(each.value() or b"") for each in of_stream if each.key() == f"{key}".encode()]
        assert ours == [number for number in range(300) if number % 7 == key]


def test_checkpoint_older_than_the_purge_is_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.write(*(pipeline.message(f"{number}") for number in range(100)))
    run(stream(pipeline), pipeline, tmp_path)
    with pipeline.connect() as connection:  # the stream of this name was further once
        table = pipeline.settings.outbox_table
        connection.execute(f"UPDATE {table}_position SET published = 1000000 WHERE relay = 'stream'")
    pipeline.write(pipeline.message("more"))
    with pytest.raises(StreamingQueryException, match="older than what was purged"):
        run(stream(pipeline), pipeline, tmp_path)


def test_rows_in_other_partitions_than_before_are_refused_and_not_lost(pipeline: Pipeline) -> None:
    pipeline.write(*(pipeline.message(f"{number}", f"{number}") for number in range(20)))
    rows = pipeline.spark.read.format("outbox").options(**source(pipeline, shards=2)).load().drop("create_time")
    rows.write.format("windrow-kafka").mode("append").options(**sink(pipeline, writeId="parted")).save()
    others = pipeline.spark.read.format("outbox").options(**source(pipeline, shards=3)).load().drop("create_time")
    with pytest.raises(Exception, match="with its rows in other partitions"):
        others.write.format("windrow-kafka").mode("append").options(**sink(pipeline, writeId="parted")).save()


def test_mistakes_in_options_and_columns_are_told(pipeline: Pipeline) -> None:
    rows = pipeline.spark.read.format("outbox").options(**source(pipeline)).load()
    with pytest.raises(Exception, match="column create_time: not one of"):
        rows.write.format("windrow-kafka").mode("append").options(**sink(pipeline)).save()
    with pytest.raises(Exception, match='outboxTable "missing" is not there'):
        run(stream(pipeline, outboxTable="missing"), pipeline, Path("/nowhere"))
