"""A transaction that somebody keeps open costs neither time nor room."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import takewhile

import psycopg
import pytest

from fix_pipeline import Pipeline, wait_for
from windrow.capture.protocol import Page
from windrow.capture.snapshot import SnapshotCapture
from windrow.errors import Interrupted, SettingsInvalid
from windrow.record import Shard
from windrow.relay.purge import Purger
from windrow.relay.setup import prepare
from windrow.relay.status import status

A_FEW = 100


@contextmanager
def held_open(pipeline: Pipeline) -> Iterator[None]:
    """Two transactions that have nothing to do with the outbox: one that has written, one that goes on reading."""
    with pipeline.connect() as writer, pipeline.connect() as reader:
        writer.execute("SELECT pg_current_xact_id()")
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT count(*) FROM pg_class")
        yield


def test_deleted_rows_are_not_looked_at_again(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(shards=1, purge={"interval": "1h", "chunk": 300})
    with held_open(pipeline):
        with pipeline.relay() as relay:
            for _ in range(4):
                pipeline.write(*(pipeline.message("x" * 100) for _ in range(500)))
            pipeline.wait_published(relay, 2000)
            position = relay.positions()[0].position
        purger = Purger(pipeline.settings)
        assert sum(purger.purge()) == 2000
        before = index_entries_read(pipeline)
        assert sum(purger.purge()) == 0
        assert index_entries_read(pipeline) - before < A_FEW
        with closing(SnapshotCapture(pipeline.settings, Shard(0, 1))) as capture:
            capture.start(position)
            for _ in range(5):
                assert capture.next().records == []
        assert index_entries_read(pipeline) - before < A_FEW
        pipeline.write(pipeline.message("new"))
        with pipeline.relay() as relay:
            pipeline.wait_published(relay, 2001)
        assert sum(purger.purge()) == 1


def test_look_at_a_backlog_reads_it_once(make_pipeline: Callable[..., Pipeline]) -> None:
    """For its first row; neither to know that it is long, nor what is newest in it."""
    pipeline, backlog = make_pipeline(shards=1, limits={"pageRecords": A_FEW}), 30 * A_FEW
    pipeline.write(pipeline.message("published"))
    with closing(SnapshotCapture(pipeline.settings, Shard(0, 1))) as capture:
        capture.start(None)
        assert len(capture.next().records) == 1
        pipeline.write(*(pipeline.message("x") for _ in range(backlog)))
        assert len(capture.next().records) == A_FEW
    assert backlog < index_entries_read(pipeline) < backlog + 5 * A_FEW


def test_backlog_whose_reading_is_broken_off_may_be_read_anew(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(shards=1, limits={"pageRecords": 20_000, "pageBytes": 100_000})
    pipeline.write(*(pipeline.message("x" * 1_000) for _ in range(20_000)))
    with closing(SnapshotCapture(pipeline.settings, Shard(0, 1))) as capture:
        capture.start(None)
        assert capture.next().more
        assert pipeline.break_off_reading()
        with pytest.raises(Interrupted, match="broke off"):
            list(takewhile(lambda page: page.more, iter(capture.next, None)))


def test_what_is_not_committed_is_not_looked_at(make_pipeline: Callable[..., Pipeline]) -> None:
    """However often others look for what is, and whether the long transaction began before the position or after it."""
    pipeline, many = make_pipeline(shards=1, limits={"pageRecords": 5 * A_FEW}), 30 * A_FEW
    with pipeline.connect() as early, pipeline.connect() as late:
        with closing(SnapshotCapture(pipeline.settings, Shard(0, 1))) as capture:
            capture.start(None)
            early.execute("SELECT pg_current_xact_id()")
            pipeline.write(pipeline.message("0"))
            assert values(capture.next()) == [b"0"]
            for connection in (early, late):
                pipeline.outbox.write_many(connection, [pipeline.message("long")] * many)
            for between in (b"1", b"2", b"3"):
                pipeline.write(pipeline.message(between))
                assert values(capture.next()) == [between]
                last = capture.next()
                assert values(last) == []
        assert index_entries_read(pipeline) < A_FEW
    with closing(SnapshotCapture(pipeline.settings, Shard(0, 1))) as capture:
        capture.start(last.position.encode())
        behind = takewhile(lambda page: page.more, iter(capture.next, None))
        assert [value for page in behind for value in values(page)] == [b"long"] * 2 * many
        assert values(capture.next()) == []


def values(page: Page) -> list[bytes | None]:
    return [record.value for record in page.records]


def test_partitioned_outbox_gives_back_the_room_of_what_is_published(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(shards=2, storage="partitioned", purge={"interval": "200ms"})
    turn_every_second(pipeline)
    slowest, values = 0.0, list[str]()
    with held_open(pipeline), pipeline.relay() as relay:
        for _ in range(3):
            for _ in range(4):
                batch = [f"{len(values) + number}" for number in range(500)]
                began = time.monotonic()
                pipeline.write(*(pipeline.message(value.ljust(300)) for value in batch))
                slowest = max(slowest, time.monotonic() - began)
                values += batch
            pipeline.wait_published(relay, len(values))
            wait_for(lambda: used_slots(pipeline) == 0, "the room of published rows to be given back")
        with pipeline.connect() as writer:
            pipeline.outbox.write(writer, pipeline.message("late"))
            turns_over = time.time() + 3
            wait_for(lambda: time.time() > turns_over, "the slot's turn to be over")
            assert list(Purger(pipeline.settings).purge()) == []
            assert (used_slots(pipeline), status(pipeline.settings).backlog) == (1, 0)
        pipeline.wait_published(relay, len(values) + 1)
        wait_for(lambda: used_slots(pipeline) == 0, "the last slot to be emptied")
    assert [(value or b"").decode().strip() for value in pipeline.values()] == [*values, "late"]
    assert slowest < 10


def test_storage_and_turns_are_fixed_with_the_table(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(storage="partitioned", purge={"retention": "10m"})
    assert prepare(pipeline.settings).storage == "partitioned"
    with pytest.raises(SettingsInvalid, match="is partitioned, which is fixed"):
        prepare(pipeline.settings, "plain")
    assert list(Purger(pipeline.settings).purge()) == []
    turn_every_second(pipeline)
    with pytest.raises(SettingsInvalid, match=f"purge.retention: .* give {timedelta(seconds=5)} at most"):
        list(Purger(pipeline.settings).purge())


def turn_every_second(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        connection.execute(
            f"ALTER TABLE {pipeline.settings.outbox_table} ALTER COLUMN slot"
            " SET DEFAULT (floor(date_part('epoch', clock_timestamp()))::bigint / 1) % 8"
        )


def used_slots(pipeline: Pipeline) -> int:
    """How many slots take any room for rows, visible or not."""
    with pipeline.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_inherits WHERE inhparent = %s::regclass AND pg_relation_size(inhrelid) > 0",
            (pipeline.settings.outbox_table,),
        ).fetchone()
    assert row
    return int(row[0])


def index_entries_read(pipeline: Pipeline) -> int:
    """Entries that all who are gone by now have read in the outbox's indexes; dead ones count."""
    with pipeline.connect() as connection:
        connection.autocommit = True
        wait_for(
            lambda: (
                connection.execute(
                    "SELECT count(*) FROM pg_stat_activity WHERE starts_with(application_name, %s)",
                    (f"windrow {pipeline.settings.name}",),
                ).fetchone()
                == (0,)
            ),
            "all others to have gone",
        )
        row = connection.execute(
            "SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = %s", (pipeline.settings.outbox_table,)
        ).fetchone()
    assert row
    return int(row[0])
