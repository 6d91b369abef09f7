"""Kill what the relay stands on, under load, and judge what came out; `test_lab` does more of it, by snapshots."""

from collections.abc import Callable

import pytest

from fix_faults import kill_python_workers_while
from fix_load import Load
from fix_pipeline import OTHERS, WAYS, Pipeline, wait_for
from windrow import embedded

pytestmark = [pytest.mark.faults, pytest.mark.timeout(180)]


@WAYS
def test_killing_the_python_worker_in_mid_transaction_loses_and_doubles_nothing(
    make_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = make_pipeline(limits={"ioErrorBackoff": "10ms"})
    load = Load(pipeline)
    with pipeline.relay() as relay:
        with load.running():
            for _ in range(2):
                pipeline.wait_published(relay, pipeline.published() + 100)
                wait_for(lambda: kill_python_workers_while(pipeline.transaction_open), "a kill in mid-transaction")
            pipeline.wait_published(relay, pipeline.published() + 100)
        pipeline.wait_published(relay, load.committed * 5)
    load.judge()


@OTHERS
def test_database_killed_and_restarted_under_load(
    pipeline: Pipeline, database: embedded.Postgres | embedded.MariaDB
) -> None:
    _survives(pipeline, database.kill, database.restart)


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
