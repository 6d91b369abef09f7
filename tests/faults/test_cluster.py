"""The relay on Spark beyond its own process: a standalone cluster that loses a worker, and a Connect server."""

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from fix_cluster import Connect, standalone
from fix_command import marked, relay_config, windrow_running
from fix_load import Load
from fix_pipeline import Pipeline, wait_for

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]

CLUSTER = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.pyspark.python": sys.executable,
    "spark.ui.enabled": "false",
}

STARTED = 240.0
"""Seconds within which several JVMs have come up on a busy machine."""


def config_of(pipeline: Pipeline, folder: Path, **spark: str) -> Path:
    return relay_config(folder, pipeline.settings, spark=spark)


def test_relay_on_a_cluster_survives_the_loss_of_a_worker(
    make_pipeline: Callable[..., Pipeline], tmp_path: Path
) -> None:
    pipeline = make_pipeline(shards=2)
    load, mark = Load(pipeline), uuid4().hex
    with standalone(workers=2) as (master, workers):
        config = config_of(pipeline, tmp_path, master=master.url, **CLUSTER)
        talk = tmp_path / "talk"
        with windrow_running("relay", "--config", config, mark=mark, talk=talk) as process:
            with load.running(writers=4):
                wait_for(lambda: all(worker.tasks for worker in workers), "a shard task on each worker", STARTED)
                pipeline.wait_published(None, 500)
                workers[0].kill()
                pipeline.wait_published(None, pipeline.published() + 1_000)
            pipeline.wait_published(None, load.committed * 5)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0, talk.read_text()
    load.judge()
    wait_for(lambda: not marked(mark), "all processes gone")


def test_relay_over_spark_connect_publishes_and_stops_when_told(pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline.write(*(pipeline.message(json.dumps(number)) for number in range(100)))
    mark = uuid4().hex
    with Connect() as server:
        config = config_of(pipeline, tmp_path, remote=server.url)
        talk = tmp_path / "talk"
        for count in (100, 200):
            with windrow_running("relay", "--config", config, mark=mark, talk=talk) as process:
                pipeline.wait_published(None, count, STARTED)
                pipeline.write(*(pipeline.message(json.dumps(number)) for number in range(count, count + 100)))
                pipeline.wait_published(None, count + 100)
                process.send_signal(signal.SIGTERM)
                assert process.wait(60) == 0, talk.read_text()
            assert "cancelling" not in talk.read_text()
    assert pipeline.values() == [json.dumps(number).encode() for number in range(300)]
