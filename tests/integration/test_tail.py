"""What is particular to tailing the log: its order, its slot, large transactions, messages that are never stored."""

import asyncio
import dataclasses
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any
from uuid import uuid4

import asyncpg
import psutil
import psycopg
import pytest
import sqlalchemy

from fix_pipeline import Pipeline, drop_slots, pipeline_on, wait_for
from windrow import AsyncOutbox, Message, Outbox, embedded
from windrow.capture.log_position import LogPosition, announced, slot_of
from windrow.capture.protocol import Page
from windrow.capture.tail import TailCapture
from windrow.doctor import examine
from windrow.election.mandate import Term
from windrow.errors import DatabaseForbids, PositionForeign, SettingsInvalid, SlotLost
from windrow.publish.dead_letter import DeadLetters
from windrow.record import Committed, Record, Shard
from windrow.relay.registry import Registry
from windrow.relay.setup import prepare, prepared_by_hand
from windrow.relay.slot import by_hand
from windrow.relay.status import status
from windrow.settings import Settings

Open = Callable[..., TailCapture]


@pytest.fixture
def strategy() -> dict[str, str]:
    return {"capture": "tail"}


@pytest.fixture
def open_capture() -> Iterator[Open]:
    """Open a capture from a position, or from where init put it, as the task of the next leader does."""
    with ExitStack() as opened:

        def open_capture(pipeline: Pipeline, position: str | None = None) -> TailCapture:
            Registry(pipeline.settings).open_epoch(uuid4(), Term(uuid4(), b""))
            capture = opened.enter_context(closing(TailCapture(pipeline.settings, Shard(0, 1))))
            capture.start(position or Registry(pipeline.settings).saved()[0].position)
            return capture

        yield open_capture


def pages(capture: TailCapture, count: int, seconds: float = 60.0) -> Iterator[Page]:
    """Pages until so many records have come."""
    deadline = time.monotonic() + seconds
    while count > 0:
        assert time.monotonic() < deadline, f"{count} records have not come"
        page = capture.next()
        count -= len(page.records)
        yield page
        if count > 0 and not page.records and not page.more:
            capture.wait(0.05)


def read(capture: TailCapture, count: int) -> list[Record]:
    return [record for page in pages(capture, count) for record in page.records]


def confirmed(pipeline: Pipeline) -> int:
    """How far the slot lets go of the log."""
    with pipeline.connect() as connection:
        row = connection.execute(
            "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE starts_with(slot_name, %s)",
            (f"windrow_{pipeline.settings.name}_",),
        ).fetchone()
    return int(row[0])


@pytest.mark.parametrize("mode", ["table", "log"])
def test_messages_come_in_the_order_of_commits_and_no_others(pipeline: Pipeline, mode: Any) -> None:
    pipeline.outbox = Outbox(pipeline.settings.outbox_table, mode=mode)
    with pipeline.relay() as relay, ExitStack() as opened:
        late = [opened.enter_context(pipeline.connect()) for _ in range(5)]
        for number, writer in enumerate(late):
            pipeline.outbox.write(writer, pipeline.message(f"late {number}"))
        with pipeline.connect() as connection:
            pipeline.outbox.write(connection, pipeline.message("kept"))
            connection.execute("SAVEPOINT here")
            pipeline.outbox.write(connection, pipeline.message("dropped"))
            connection.execute("ROLLBACK TO SAVEPOINT here")
            connection.execute("SAVEPOINT there")
            pipeline.outbox.write(connection, pipeline.message("released"))
            connection.execute("RELEASE SAVEPOINT there")
        for number in (3, 0, 4):
            late[number].commit()
        late[1].rollback()
        late[2].commit()
        with pipeline.connect() as connection:
            connection.tpc_begin(pipeline.topic)
            pipeline.outbox.write(connection, pipeline.message("prepared"))
            connection.tpc_prepare()
            pipeline.write(pipeline.message("other"))
            connection.tpc_commit()
        pipeline.wait_published(relay, 8)
        wait_for(lambda: status(pipeline.settings).backlog == 0, "nothing to wait")
    expected = ["kept", "released", "late 3", "late 0", "late 4", "late 2", "other", "prepared"]
    assert pipeline.values() == [each.encode() for each in expected]


def test_what_was_committed_before_the_slot_was_made_comes_first_and_once(
    make_pipeline: Callable[..., Pipeline], open_capture: Open
) -> None:
    """Also what is committed while it is being made."""
    pipeline = make_pipeline(capture="snapshot")
    pipeline.write(*(pipeline.message(f"{number}") for number in range(10)))
    tailing = Pipeline(
        dataclasses.replace(pipeline.settings, capture="tail", name=f"{pipeline.settings.name}_tail"),
        pipeline.topic,
        pipeline.spark,
    )
    over = threading.Event()
    written = 10

    def write() -> None:
        nonlocal written
        while not over.is_set():
            pipeline.write(pipeline.message(f"{written}"))
            written += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        prepare(tailing.settings)
    finally:
        over.set()
        thread.join()
    try:
        records = read(open_capture(tailing), written)
    finally:
        drop_slots(tailing.settings)
    assert [record.value for record in records] == [f"{number}".encode() for number in range(written)]


def test_a_large_transaction_is_read_in_bounded_memory_and_resumed_in_its_middle(
    make_pipeline: Callable[..., Pipeline], open_capture: Open
) -> None:
    pipeline = make_pipeline(limits={"pageRecords": 5_000})
    count, table = 200_000, pipeline.settings.outbox_table
    first = open_capture(pipeline)
    with pipeline.connect() as connection:
        connection.execute(
            f"INSERT INTO {table} (topic, key, value)"
            " SELECT 'topic', int8send(n), decode(repeat('ab', 1000), 'hex') FROM generate_series(1, %s) AS n",
            (count,),
        )
    memory = psutil.Process().memory_info().rss
    position, half = "", 0
    for page in pages(first, count // 2):
        assert len(page.records) <= 5_000
        half += len(page.records)
        position = page.position.encode()
    assert len(position) < 500
    within = next(record.id for record in page.records[100:])
    assert page.upto(within) == dataclasses.replace(
        LogPosition.decode(position), nth=within, rows=LogPosition.decode(page.upto(within).encode()).rows
    )
    second = open_capture(pipeline, page.upto(within).encode())
    following = within
    for page in pages(second, count - within):
        numbers = [record.id for record in page.records]
        assert numbers == [*range(following + 1, following + 1 + len(numbers))]
        following += len(numbers)
    assert following == count
    assert psutil.Process().memory_info().rss - memory < 120_000_000, "200 MB went through"
    assert LogPosition.decode(page.position.encode()).nth in {0, count}


def test_who_starts_takes_the_slot_from_whoever_reads_it(pipeline: Pipeline, open_capture: Open) -> None:
    first = open_capture(pipeline)
    pipeline.write(pipeline.message("1"))
    assert [record.value for record in read(first, 1)] == [b"1"]
    second = open_capture(pipeline)
    assert [record.value for record in read(second, 1)] == [b"1"], "it was not confirmed"


def test_the_slot_lets_go_of_what_is_published_and_of_nothing_else(pipeline: Pipeline, open_capture: Open) -> None:
    capture = open_capture(pipeline)
    pipeline.write(pipeline.message("1"))
    *_, page = pages(capture, 1)
    at = LogPosition.decode(page.position.encode()).lsn
    time.sleep(1.1)
    capture.next()
    assert confirmed(pipeline) < at, "the page may still be on its way"

    def idle() -> bool:
        capture.next()
        capture.wait(0.05)
        return confirmed(pipeline) >= at

    wait_for(idle, "the slot to move", 10)


def test_an_idle_slot_moves_while_others_write(pipeline: Pipeline) -> None:
    with pipeline.relay() as relay:
        pipeline.write(pipeline.message("1"))
        pipeline.wait_published(relay, 1)
        with pipeline.connect() as connection:
            connection.execute("CREATE TEMPORARY TABLE other (content text)")
            connection.execute("SELECT pg_logical_emit_message(true, 'somebody else''s', 'content')")
            connection.execute(f"CREATE TABLE {pipeline.settings.outbox_table}_other (content text)")
            connection.commit()
            row = connection.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchone()
        wait_for(lambda: confirmed(pipeline) >= row[0], "the slot to move", 15)
        wait_for(
            lambda: LogPosition.decode(relay.positions()[0].position).lsn >= row[0], "the position to be committed", 15
        )
        with pipeline.connect() as connection:
            outbox = pipeline.settings.outbox_table
            wait_for(
                lambda: connection.execute(f"SELECT count(*) FROM {outbox}").fetchone() == (0,), "the row to be purged"
            )
    assert pipeline.values() == [b"1"]


def test_a_lost_slot_ends_the_relay(pipeline: Pipeline) -> None:
    drop_slots(pipeline.settings)
    with pytest.raises(SlotLost, match='another name, run "windrow init"'), pipeline.relay() as relay:
        relay.wait(60)
    prepare(pipeline.settings)
    with pytest.raises(SlotLost), pipeline.relay() as relay:
        relay.wait(60)


def test_a_log_that_was_thrown_away_is_refused_and_a_long_one_warned_of(
    kafka: embedded.Kafka, spark: Any, open_capture: Open, caplog: pytest.LogCaptureFixture
) -> None:
    bounds = {"max_slot_wal_keep_size": "32MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}
    with embedded.Postgres(settings=bounds) as server:
        pipeline = pipeline_on(server.url, kafka.client_config, spark, capture="tail", limits={"maxSlotWal": "1MB"})
        pipeline.write(pipeline.message("1"))
        with pipeline.connect() as connection:
            connection.autocommit = True
            connection.execute(
                "CREATE TABLE other AS SELECT repeat('x', 1000) AS content FROM generate_series(1, 10000)"
            )
            with caplog.at_level(logging.WARNING), closing(TailCapture(pipeline.settings, Shard(0, 1))) as capture:
                capture.start(Registry(pipeline.settings).saved()[0].position)
            assert "more than limits.maxSlotWal" in caplog.text
            for _ in range(10):
                connection.execute("INSERT INTO other SELECT content FROM other LIMIT 10000")
                connection.execute("SELECT pg_switch_wal()")
                connection.execute("CHECKPOINT")
        with pytest.raises(SlotLost, match="max_slot_wal_keep_size"):
            open_capture(pipeline)


def test_positions_of_other_databases_and_of_the_future_are_refused(pipeline: Pipeline, open_capture: Open) -> None:
    position = LogPosition.decode(Registry(pipeline.settings).saved()[0].position)
    elsewhere = dataclasses.replace(position, rows=dataclasses.replace(position.rows, database="7"))
    with pytest.raises(PositionForeign, match="another server"):
        open_capture(pipeline, elsewhere.encode())
    with pytest.raises(PositionForeign, match="set back"):
        open_capture(pipeline, dataclasses.replace(position, lsn=2**60).encode())


@pytest.mark.faults
def test_the_database_is_stopped_and_started_while_the_relay_runs(
    pipeline: Pipeline, database: embedded.Postgres
) -> None:
    with pipeline.relay() as relay:
        pipeline.write(pipeline.message("1"))
        pipeline.wait_published(relay, 1)
        began = time.monotonic()
        database.halt()
        assert time.monotonic() - began < 20, "a server that stops waits for readers of its log"
        database.restart()
        pipeline.write(pipeline.message("2"))
        pipeline.wait_published(relay, 2)
    assert pipeline.values() == [b"1", b"2"]


def test_every_library_emits_to_the_log_in_the_order_of_ids(pipeline: Pipeline, open_capture: Open) -> None:
    table, url = pipeline.settings.outbox_table, pipeline.settings.data_source
    outbox, ids = Outbox(table, mode="log"), []
    messages = [Message("topic", f"{number}", "key", {"name": "ü"}, partition=1) for number in range(60)]
    with psycopg.connect(url) as connection:
        ids.append(outbox.write(connection, messages[0]))
        assert outbox.write_many(connection, messages[1:30]) == 29
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as transaction:
        ids.append(outbox.write(transaction, messages[30]))
    engine.dispose()

    async def write() -> None:
        connection = await asyncpg.connect(url)
        async with connection.transaction():
            ids.append(await AsyncOutbox(table, mode="log").write(connection, messages[31]))
            await AsyncOutbox(table, mode="log").write_many(connection, messages[32:])
        await connection.close()

    asyncio.run(write())
    records = read(open_capture(pipeline), 60)
    assert records[0].written_at
    assert [each._replace(written_at=None) for each in records] == [
        Record(number + 1, "topic", b"key", each.value, ["name"], ["ü".encode()], 1, None)
        for number, each in enumerate(messages)
    ]
    assert ids == [1, 31, 32]
    with pipeline.connect() as connection:
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_a_letter_whose_message_is_read_again_is_forgotten_and_no_other(pipeline: Pipeline, open_capture: Open) -> None:
    """A task that died had buried both; the position had moved past the first alone."""
    letters, table = DeadLetters(pipeline.settings), pipeline.settings.outbox_table
    pipeline.outbox = Outbox(table, mode="log")
    pipeline.write(pipeline.message("1"), pipeline.message("2"))
    *_, page = pages(open_capture(pipeline), 2)
    places = [page.upto(each.id).encode() for each in page.records]
    Registry(pipeline.settings).save({0: Committed(0, places[0])})
    with pipeline.connect() as connection:
        for record, place in zip(page.records, places, strict=True):
            connection.execute(
                f"INSERT INTO {table}_dead_letter (relay, id, create_time, topic, key, value, header_keys,"
                " header_values, reason, log_place) VALUES (%s, %s, now(), %s, %s, %s, '{}', '{}', 'refused', %s)",
                (pipeline.settings.name, record.id, record.topic, record.key, record.value, place),
            )
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
        assert [letter.id for letter in letters.list(10)] == [page.records[0].id]
        assert letters.retry(None) == 1
        pipeline.wait_published(relay, 2)
    assert sorted(pipeline.values()) == [b"1", b"2"]


def test_init_is_safe_to_repeat_and_makes_one_slot(pipeline: Pipeline) -> None:
    assert prepare(pipeline.settings).created_slot is None


def slots(settings: Settings) -> list[tuple[str, bool]]:
    """The relay's slots, and whether somebody has them in hand."""
    with psycopg.connect(settings.data_source, autocommit=True) as connection:
        mine = (f"windrow_{settings.name}_",)
        found = "SELECT slot_name, active FROM pg_replication_slots WHERE starts_with(slot_name, %s)"
        return connection.execute(found, mine).fetchall()


def test_init_that_was_killed_while_it_made_the_slot_leaves_none_behind(pipeline: Pipeline) -> None:
    settings = dataclasses.replace(pipeline.settings, name=f"{pipeline.settings.name}_b")
    with pipeline.connect() as held:
        held.execute("SELECT pg_current_xact_id()")  # a slot is made once such a transaction has ended
        program = (
            "from windrow.relay.setup import prepare; from windrow.settings import Settings;"
            f"prepare(Settings.load(environment={{}}, name={settings.name!r}, outbox_table={settings.outbox_table!r},"
            f"data_source={settings.data_source!r}, base_kafka_config={dict(settings.base_kafka_config)!r},"
            "capture='tail'))"
        )
        with subprocess.Popen([sys.executable, "-c", program]) as process:
            wait_for(lambda: slots(settings), "the slot to be in the making")
            process.send_signal(signal.SIGKILL)
    left = Registry(settings).saved()[0].position
    assert announced(left)
    orphan = slot_of(left)
    wait_for(lambda: not slots(settings), "the server to give the slot up")
    with psycopg.connect(
        settings.data_source, autocommit=True
    ) as connection:  # killed a moment later, it had been made
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (orphan,))
    made = prepare(settings).created_slot
    assert slots(settings) == [(made, False)]
    assert made not in {None, orphan}
    assert prepare(settings).created_slot is None


def test_a_slot_made_by_hand_begins_behind_the_rows_that_are_there(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(capture="snapshot", shards=1)
    pipeline.write(pipeline.message("before"))
    pipeline = Pipeline(dataclasses.replace(pipeline.settings, capture="tail"), pipeline.topic, pipeline.spark)
    published, slot = (each.as_string() for each in by_hand(pipeline.settings))
    with (
        pipeline.connect() as others,
        psycopg.connect(pipeline.settings.data_source, autocommit=True) as connection,
        ThreadPoolExecutor(1) as threads,
    ):
        connection.execute(published)
        others.execute("SELECT pg_current_xact_id()")
        pipeline.write(pipeline.message("before, too"))
        made = threads.submit(connection.execute, slot)
        wait_for(lambda: slots(pipeline.settings), "the slot to be in the making")
        others.commit()
        made.result(30)
        connection.execute(slot)  # changes nothing
    try:
        position = LogPosition.decode(Registry(pipeline.settings).saved()[0].position)
        assert position.rows.hi
        assert position.rows.hi.xip, "the transaction that was open"
        assert [(position.slot, False)] == slots(pipeline.settings)
        pipeline.write(pipeline.message("after"))
        with pipeline.relay() as relay:
            pipeline.wait_published(relay, 3)
        assert pipeline.values() == [b"before", b"before, too", b"after"]
    finally:
        drop_slots(pipeline.settings)


def test_the_printed_sql_makes_tables_publication_and_slot(postgres: embedded.Postgres, kafka: embedded.Kafka) -> None:
    name = f"by_hand_{uuid4().hex[:8]}"
    given = {"data_source": postgres.url, "base_kafka_config": kafka.client_config, "capture": "tail"}
    settings = Settings.load(environment={}, name=name, outbox_table=name, **given)
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute(prepared_by_hand(settings).encode())
    try:
        assert [slot for slot, _ in slots(settings)] == [slot_of(Registry(settings).saved()[0].position)]
        assert prepare(settings).created_slot is None
    finally:
        drop_slots(settings)


def test_status_tells_what_waits_in_the_log(pipeline: Pipeline) -> None:
    outbox = Outbox(pipeline.settings.outbox_table, mode="log")
    before = status(pipeline.settings).log
    with pipeline.connect() as connection:
        for _ in range(10):
            outbox.write(connection, pipeline.message(b"x" * 100_000))
    now = status(pipeline.settings)
    assert before
    assert now.log
    assert now.log.held >= now.log.unread >= before.unread + 1_000_000
    assert now.backlog == 0


def test_the_doctor_looks_at_the_log_and_the_slot(pipeline: Pipeline) -> None:
    findings = {each.check: each for each in examine(pipeline.settings)}
    assert (findings["log"].verdict, findings["slot"].verdict) == ("ok", "ok")
    drop_slots(pipeline.settings)
    findings = {each.check: each for each in examine(pipeline.settings)}
    assert (findings["slot"].verdict, "is lost" in findings["slot"].says) == ("failed", True)


def test_a_user_without_the_right_is_told_which(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        connection.execute(f"CREATE ROLE {pipeline.settings.name} LOGIN SUPERUSER")
        connection.execute(f"ALTER ROLE {pipeline.settings.name} NOSUPERUSER")
    url = pipeline.settings.data_source.replace("postgres@", f"{pipeline.settings.name}@")
    with pytest.raises(DatabaseForbids, match="REPLICATION"):
        prepare(dataclasses.replace(pipeline.settings, data_source=url))


def test_a_relay_of_another_capture_keeps_it(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(capture="snapshot", shards=1)
    with pipeline.relay() as relay:
        pipeline.write(pipeline.message("1"))
        pipeline.wait_published(relay, 1)
    with pytest.raises(PositionForeign, match="another name"):
        prepare(dataclasses.replace(pipeline.settings, capture="tail"))


def test_a_log_has_one_reader(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(capture="snapshot", shards=2)
    with pytest.raises(SettingsInvalid, match="one reader"):
        prepare(dataclasses.replace(pipeline.settings, capture="tail", shards=None))


def test_the_first_position_counts_nothing(pipeline: Pipeline) -> None:
    saved = Registry(pipeline.settings).saved()[0]
    assert saved == Committed(0, saved.position)
