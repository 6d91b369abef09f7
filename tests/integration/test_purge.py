"""Published rows go, others stay: whatever shard or relay they wait for."""

import dataclasses
from collections.abc import Callable

import pytest

from fix_load import Load
from fix_pipeline import Pipeline, wait_for
from windrow import embedded
from windrow.relay import Relay
from windrow.relay.purge import Purger


def rows(pipeline: Pipeline) -> int:
    with pipeline.connect() as connection:
        row = connection.execute(f"SELECT count(*) FROM {pipeline.settings.outbox_table}").fetchone()
    assert row
    return int(row[0])


def deleted(pipeline: Pipeline) -> int:
    return sum(Purger(pipeline.settings).purge())


@pytest.mark.parametrize("shards", [1, 3])
def test_published_rows_are_purged_in_chunks(make_pipeline: Callable[..., Pipeline], shards: int) -> None:
    pipeline = make_pipeline(shards=shards, purge={"interval": "100ms", "chunk": 70})
    pipeline.write(*(pipeline.message(f"{number}", key=f"{number}") for number in range(500)))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 500)
        wait_for(lambda: rows(pipeline) == 0, "an empty table")
    assert len(pipeline.values()) == 500


def test_row_of_an_open_transaction_outlives_the_purge_and_is_relayed(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(purge={"interval": "50ms"})
    with pipeline.connect() as slow, pipeline.relay() as relay:
        pipeline.outbox.write(slow, pipeline.message("slow"))
        pipeline.write(pipeline.message("quick"))
        pipeline.wait_published(relay, 1)
        wait_for(lambda: rows(pipeline) == 0, "the published row to go")
        slow.commit()
        pipeline.wait_published(relay, 2)
        wait_for(lambda: rows(pipeline) == 0, "the other row to go")
    assert pipeline.values() == [b"quick", b"slow"]


def test_unpublished_rows_stay(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(purge={"interval": "1h"})
    pipeline.write(pipeline.message("published"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    pipeline.write(pipeline.message("waits"))
    assert deleted(pipeline) == 1
    assert rows(pipeline) == 1


def test_relay_that_has_not_run_yet_holds_the_rows_back(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(purge={"interval": "1h"})
    with pipeline.connect() as connection:
        connection.execute(f"INSERT INTO {pipeline.settings.outbox_table}_relay (name, shards) VALUES ('other', 1)")
    pipeline.write(pipeline.message("published by one"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    assert deleted(pipeline) == 0
    with pipeline.connect() as connection:
        connection.execute(f"DELETE FROM {pipeline.settings.outbox_table}_relay WHERE name = 'other'")
    assert deleted(pipeline) == 1


def test_rows_are_kept_for_their_retention(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(purge={"interval": "1h", "retention": "1h"})
    pipeline.write(pipeline.message("old"), pipeline.message("young"))
    with pipeline.connect() as connection:
        connection.execute(
            f"UPDATE {pipeline.settings.outbox_table} SET create_time = now() - interval '2 hours' WHERE id = 1"
        )
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    assert deleted(pipeline) == 1
    assert rows(pipeline) == 1


def test_purging_under_load_loses_nothing(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(shards=2, purge={"interval": "10ms", "chunk": 50}, epoch="2s")
    load = Load(pipeline)
    with pipeline.relay() as relay:
        with load.running(writers=4):
            wait_for(lambda: relay.epochs >= 3, "three epochs")
        pipeline.wait_published(relay, load.committed * 5)
        wait_for(lambda: rows(pipeline) == 0, "an empty table")
    load.judge()


def test_missing_right_is_said_once_and_does_not_stop_the_relay(
    make_pipeline: Callable[..., Pipeline], postgres: embedded.Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = make_pipeline(purge={"interval": "20ms"})
    name = pipeline.settings.name
    with pipeline.connect() as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN")
        for suffix, rights in (("", "SELECT"), ("_relay", "SELECT, UPDATE"), ("_position", "SELECT, INSERT, UPDATE")):
            connection.execute(f"GRANT {rights} ON {name}{suffix} TO {name}")
        connection.execute(f"GRANT SELECT ON {name}_migration, {name}_dead_letter TO {name}")
    database = f"postgresql://{name}@127.0.0.1:{postgres.port}/postgres"
    with Relay(dataclasses.replace(pipeline.settings, data_source=database), pipeline.spark) as relay:
        for number in range(3):
            pipeline.write(pipeline.message(f"{number}"))
            pipeline.wait_published(relay, number + 1)
        wait_for(lambda: "permission denied" in caplog.text, "the complaint")
    assert caplog.text.count("permission denied") == 1
    assert rows(pipeline) == 3
