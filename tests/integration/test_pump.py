"""The pump on a real database: what it says it wrote is there."""

import psycopg
import pytest

from fix_pipeline import DATABASES, Pipeline, wait_for
from windrow.bench.arrivals import Arrivals
from windrow.bench.pump import Load, Pump
from windrow.database.connections import Connection


def rows(pipeline: Pipeline) -> int:
    with pipeline.connect() as connection:
        found = connection.execute(f"SELECT count(*) FROM {pipeline.settings.outbox_table}").fetchone()
        assert found
        return int(found[0])


@DATABASES
def test_what_was_committed_is_there_and_what_was_rolled_back_is_not(pipeline: Pipeline) -> None:
    load = Load(pipeline.topic, transaction=10, rollback=0.5, count=995)
    pump = Pump(pipeline.settings.outbox_table, load, pipeline.settings.dialect)
    with Arrivals(pipeline.settings.data_source, pump.write, 3, rate=None, count=load.transactions) as arrivals:
        wait_for(lambda: not arrivals.running, "the load to be written")
    done = pump.pumped()
    assert done.committed == rows(pipeline) > 0
    assert done.committed + done.rolled_back == 995
    assert done.rolled_back > 0
    assert done.unknown == 0
    assert 0 < done.commit_p50_ms <= done.commit_p99_ms


def test_broken_connections_are_opened_anew(pipeline: Pipeline) -> None:
    pump = Pump(pipeline.settings.outbox_table, Load(pipeline.topic))
    with Arrivals(pipeline.settings.data_source, pump.write, 2, rate=500):
        for _ in range(3):
            before = pump.pumped().committed
            wait_for(lambda before=before: pump.pumped().committed > before + 20, "messages")
            with pipeline.connect() as connection:
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'windrow load'"
                )
    done = pump.pumped()
    assert done.committed <= rows(pipeline) <= done.committed + done.unknown


def test_what_cannot_be_mended_ends_it(pipeline: Pipeline) -> None:
    def write(connection: Connection, _number: int) -> None:
        connection.execute("SELECT nonsense")

    arrivals = Arrivals(pipeline.settings.data_source, write, 2)
    with pytest.raises(psycopg.errors.UndefinedColumn), arrivals:
        wait_for(lambda: not arrivals.running, "the end")
