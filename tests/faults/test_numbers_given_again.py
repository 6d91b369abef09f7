"""A server that crashes gives the numbers of transactions again that had just rolled back: none is taken for seen."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from fix_pipeline import Pipeline
from windrow import embedded
from windrow.capture.position import Position
from windrow.capture.snapshot import SnapshotCapture
from windrow.capture.span import SpanCapture
from windrow.record import Shard
from windrow.relay.registry import Registry
from windrow.settings import Settings

pytestmark = pytest.mark.faults

ALL, OTHERS = Shard(0, 1), Shard(1, 2)
TRIES = 4


def by_a_look(settings: Settings, shard: Shard = ALL) -> str:
    with closing(SnapshotCapture(settings, shard)) as capture:
        capture.start(None)
        return capture.next().position.encode()


def by_an_idle_shard(settings: Settings) -> str:
    return by_a_look(settings, OTHERS)


def by_a_plan(settings: Settings) -> str:
    with closing(SpanCapture.at(settings, ALL, None)) as capture:
        return capture.reach(capture.position).end.encode()


def by_pages(settings: Settings) -> str:
    one_by_one = replace(settings, limits=replace(settings.limits, page_records=1))
    with closing(SnapshotCapture(one_by_one, ALL)) as capture:
        capture.start(None)
        while (position := capture.next().position.encode()) and Position.decode(position).hi is not None:
            pass
        return position


def by_the_present(settings: Settings) -> str:
    return Registry(settings).now().encode()


@pytest.fixture(scope="module")
def database() -> Iterator[embedded.Postgres]:
    """A server of our own that takes its time to write out what nobody waits for, such as rollbacks."""
    lazy = {"wal_writer_delay": "10s", "bgwriter_delay": "10s", "autovacuum": "off"}
    with embedded.Postgres(settings=lazy) as server:
        yield server


@pytest.mark.parametrize("position_made", [by_a_look, by_an_idle_shard, by_a_plan, by_pages, by_the_present])
def test_number_that_is_given_again_is_not_taken_for_seen(
    pipeline: Pipeline, database: embedded.Postgres, position_made: Callable[[Settings], str]
) -> None:
    for _ in range(TRIES):
        pipeline.write(*(pipeline.message("before", key="0") for _ in range(3)))
        rolled_back = number_of_a_rollback(pipeline)
        position = position_made(pipeline.settings)
        database.kill()
        database.restart()
        pipeline.write(pipeline.message("after", key="0"))
        with closing(SnapshotCapture(pipeline.settings, ALL)) as capture:
            capture.start(position)
            assert [each.value for each in capture.next().records] == [b"after"]
        if newest_number(pipeline) == rolled_back:
            return  # as it was meant
    assert position_made is by_the_present, "the log was written out too soon, each time"


def number_of_a_rollback(pipeline: Pipeline) -> int:
    with pipeline.connect() as connection:
        pipeline.outbox.write(connection, pipeline.message("never"))
        row = connection.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        connection.rollback()
    assert row
    return int(row[0])


def newest_number(pipeline: Pipeline) -> int:
    with pipeline.connect() as connection:
        table = pipeline.settings.outbox_table
        row = connection.execute(f"SELECT tx::text::bigint FROM {table} ORDER BY id DESC LIMIT 1").fetchone()
    assert row
    return int(row[0])
