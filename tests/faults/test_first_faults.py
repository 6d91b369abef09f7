"""Kill and pause what the relay stands on, under load, and judge what came out."""

import time
from collections.abc import Callable

import pytest

from fix_faults import kill_python_workers
from fix_load import Load
from fix_pipeline import CAPTURES_AND_LOG, Pipeline, wait_for
from windrow import embedded

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


@CAPTURES_AND_LOG
def test_killing_the_python_worker_in_mid_transaction_loses_and_doubles_nothing(
    make_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = make_pipeline(limits={"ioErrorBackoff": "10ms"})
    load = Load(pipeline)
    in_mid_transaction = 0
    with pipeline.relay() as relay:
        with load.running():
            pipeline.wait_published(relay, 100)
            deadline = time.monotonic() + 90
            while in_mid_transaction < 2 and time.monotonic() < deadline:
                before = pipeline.published()
                wait_for(pipeline.transaction_open, "an open transaction")
                kill_python_workers()
                in_mid_transaction += pipeline.transaction_open()
                pipeline.wait_published(relay, before + 100)
        pipeline.wait_published(relay, load.committed * 5)
    assert in_mid_transaction == 2
    load.judge()


@CAPTURES_AND_LOG
def test_database_killed_and_restarted_under_load(
    pipeline: Pipeline, database: embedded.Postgres | embedded.MariaDB
) -> None:
    _survives(pipeline, database.kill, database.restart)


def test_broker_killed_and_restarted_under_load(pipeline: Pipeline, kafka: embedded.Kafka) -> None:
    _survives(pipeline, kafka.kill, kafka.restart)


def test_broker_paused_under_load(pipeline: Pipeline, kafka: embedded.Kafka) -> None:
    _survives(pipeline, kafka.pause, kafka.resume)


def _survives(pipeline: Pipeline, fault: Callable[[], None], remedy: Callable[[], None]) -> None:
    load = Load(pipeline)
    with pipeline.relay() as relay:
        with load.running():
            pipeline.wait_published(relay, 100)
            before = pipeline.published()
            fault()
            remedy()
            pipeline.wait_published(relay, before + 2_000)
        pipeline.wait_published(relay, load.committed * 5)
    load.judge()
