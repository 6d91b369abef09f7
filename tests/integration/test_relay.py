"""The relay's life: it starts where it ended, ends when told to, and says what stopped it."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from fix_pipeline import CAPTURES, DEADLINE, Pipeline, wait_for
from windrow import Message, embedded
from windrow.capture.position import Position
from windrow.election.mandate import Term
from windrow.election.neli import Neli
from windrow.errors import OutboxTableMissing, PositionForeign, SettingsInvalid
from windrow.kafka.clients import client_config
from windrow.lab.child import python_workers
from windrow.record import Committed, Shard
from windrow.relay import Event, LeaderAcquired, LeaderRefreshed, LeaderRevoked, MeterRead, Relay, State
from windrow.relay.epoch import warm_up
from windrow.relay.registry import Registry
from windrow.relay.seat import Seat
from windrow.relay.setup import prepare
from windrow.relay.shard import ShardLoop
from windrow.relay.watch import Watch
from windrow.settings import Settings
from windrow.spark.session import slots


@contextmanager
def occupied(spark: SparkSession, enough: Path) -> Iterator[None]:
    """Meanwhile, no other task finds a slot."""

    def wait(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        deadline = time.monotonic() + 60
        while not enough.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        yield from batches

    tasks = slots(spark) or 1
    frame = spark.range(0, tasks, 1, tasks).mapInArrow(wait, "id long")
    with ThreadPoolExecutor(1) as threads:
        job = threads.submit(frame.collect)
        try:
            wait_for(spark.sparkContext.statusTracker().getActiveJobsIds, "Spark to be occupied")
            yield
        finally:
            enough.touch()
            job.result()


def test_restarted_relay_goes_on_where_it_ended(pipeline: Pipeline) -> None:
    for start in range(3):
        pipeline.write(*(pipeline.message(f"{start} {number}") for number in range(50)))
        with pipeline.relay() as relay:
            pipeline.wait_published(relay, (start + 1) * 50)
    assert pipeline.values() == [f"{start} {number}".encode() for start in range(3) for number in range(50)]


def test_warm_up_leaves_workers_that_the_next_job_takes(spark: SparkSession) -> None:
    warm_up(spark)
    warm = set(python_workers(os.getpid()))
    warm_up(spark)
    assert len(warm) >= 2
    assert set(python_workers(os.getpid())) <= warm


def test_states_follow_each_other(pipeline: Pipeline) -> None:
    relay = Relay(pipeline.settings, pipeline.spark)
    assert relay.state is State.CREATED
    with relay:
        assert relay.state is State.RUNNING
        wait_for(lambda: relay.leader_id, "a leader")
    assert relay.state is State.STOPPED
    assert relay.leader_id is None
    with pytest.raises(RuntimeError, match="starts once"):
        relay.start()


@pytest.mark.parametrize("shards", [1, 3])
def test_second_relay_of_the_same_name_stands_by_and_takes_over(
    make_pipeline: Callable[..., Pipeline], shards: int
) -> None:
    pipeline = make_pipeline(shards=shards)
    events: list[Event] = []
    pipeline.write(*(pipeline.message(f"{number}") for number in range(200)))
    first = Relay(pipeline.settings, pipeline.spark, events.append)
    with first:
        pipeline.wait_published(first, 200)
        with pipeline.relay() as second:
            wait_for(lambda: any(isinstance(event, LeaderRefreshed) for event in events), "the second relay to join")
            pipeline.write(*(pipeline.message(f"{number}") for number in range(200, 400)))
            pipeline.wait_published(first, 400)
            assert (first.is_leader, second.is_leader) == (True, False)
            term = first.leader_id
            first.stop()
            pipeline.write(*(pipeline.message(f"{number}") for number in range(400, 600)))
            pipeline.wait_published(second, 600)
            assert second.is_leader
            assert second.leader_id != term
    assert pipeline.values() == [f"{number}".encode() for number in range(600)]
    changes = [type(event) for event in events if not isinstance(event, MeterRead)]
    assert changes == [LeaderAcquired, LeaderRefreshed, LeaderRevoked]


def test_next_term_does_not_wait_for_positions_that_kafka_does_not_tell(make_pipeline: Callable[..., Pipeline]) -> None:
    often = {"limits": {"minMetricsInterval": "100ms"}, "purge": {"interval": "100ms"}}
    pipeline = make_pipeline(shards=2, **often)
    settings = pipeline.settings
    beside: list[set[str]] = []

    def look(event: Event) -> None:
        if isinstance(event, LeaderAcquired):
            beside.append({each.name for each in threading.enumerate()})

    with Relay(settings, pipeline.spark, look) as relay:
        pipeline.write(*(pipeline.message(f"{number}", f"{number}") for number in range(100)))
        pipeline.wait_published(relay, 100)
        with _unsettled_position(settings, shard=1):
            time.sleep(0.5)  # for what runs beside to have asked where the shards are
            assert relay.leader_id
            relay._election.resign(relay.leader_id)
            wait_for(lambda: len(beside) == 2, "the next term")
        pipeline.write(*(pipeline.message(f"{number}", f"{number}") for number in range(100, 200)))
        pipeline.wait_published(relay, 200)
    assert beside[1] - beside[0] >= {f"meter of {settings.name}", f"purge of {settings.name}"}
    assert sorted(pipeline.values()) == sorted(f"{number}".encode() for number in range(200))


@contextmanager
def _unsettled_position(settings: Settings, shard: int) -> Iterator[None]:
    """Meanwhile a transaction is open that moves a shard's position: Kafka does not tell it."""
    producer = Producer(client_config(settings, {"transactional.id": uuid4().hex}))
    producer.init_transactions(DEADLINE)
    producer.begin_transaction()
    group = client_config(settings, {"group.id": settings.leader_group_id})
    with closing(Consumer(group)) as consumer:
        position = TopicPartition(settings.position_topic, shard, 0)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), DEADLINE)
    yield
    producer.abort_transaction(DEADLINE)


def test_whatever_ends_a_relay_is_raised(pipeline: Pipeline) -> None:
    class Mistaken(Relay):
        def _lead(self, term: Term) -> None:
            raise AttributeError(f"a mistake in {term.id}")

    relay = Mistaken(pipeline.settings, pipeline.spark)
    relay.start()
    with pytest.raises(AttributeError, match="a mistake in"):
        relay.wait(DEADLINE)


def test_heir_that_has_waited_for_its_seat_is_patient_with_others(pipeline: Pipeline) -> None:
    with Seat(pipeline.settings, Shard(0, 1), uuid4()) as seat:
        usual = seat.connection.execute("SHOW lock_timeout").fetchone()
        seat.relieve()
        assert seat.connection.execute("SHOW lock_timeout").fetchone() == usual


def test_standby_begins_to_lead_while_its_workers_are_still_being_warmed(pipeline: Pipeline, tmp_path: Path) -> None:
    events: list[Event] = []
    relay = Relay(pipeline.settings, pipeline.spark, events.append)
    jobs = pipeline.spark.sparkContext.statusTracker()
    try:
        with occupied(pipeline.spark, tmp_path / "enough"):
            with Neli(pipeline.settings) as another:
                wait_for(lambda: another.term, "another to lead")
                relay.start()
                wait_for(
                    lambda: len(jobs.getActiveJobsIds()) == 2, "the standby to warm up, besides what occupies Spark"
                )
            wait_for(lambda: any(isinstance(event, LeaderAcquired) for event in events), "the standby to lead")
        pipeline.write(pipeline.message("after all"))
        pipeline.wait_published(relay, 1)
    finally:
        relay.stop()
    relay.wait()


def test_two_relays_of_different_names_do_not_touch_each_other(
    make_pipeline: Callable[..., Pipeline],
) -> None:
    one, two = make_pipeline(), make_pipeline()
    with one.relay() as first, two.relay() as second:
        one.write(one.message("one"))
        two.write(two.message("two"))
        one.wait_published(first, 1)
        two.wait_published(second, 1)
    assert (one.values(), two.values()) == ([b"one"], [b"two"])


def test_position_that_kafka_has_forgotten_is_taken_from_the_database(
    pipeline: Pipeline,
) -> None:
    pipeline.write(pipeline.message("before"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 1)
    admin = AdminClient(client_config(pipeline.settings))
    admin.delete_consumer_groups([pipeline.settings.leader_group_id])[pipeline.settings.leader_group_id].result(30)
    pipeline.write(pipeline.message("after"))
    with pipeline.relay() as relay:
        pipeline.wait_published(relay, 2)
    assert pipeline.values() == [b"before", b"after"]


def test_older_position_than_the_saved_one_is_not_believed(pipeline: Pipeline) -> None:
    committed: list[Committed] = []
    for value in ("one", "two"):
        pipeline.write(pipeline.message(value))
        with pipeline.relay() as relay:
            pipeline.wait_published(relay, len(committed) + 1)
        committed.append(pipeline.committed())
    pipeline.write(pipeline.message("three"))
    pipeline.commit(committed[0])
    with pipeline.relay(), Watch(pipeline.settings) as watch:
        wait_for(lambda: watch.view.figures().counts["interruptions"] > 1, "the relay to doubt it")
    assert pipeline.values() == [b"one", b"two"]
    pipeline.commit(committed[1])
    with pipeline.relay():
        wait_for(lambda: len(pipeline.values()) > 2, "the relay to go on")
    assert pipeline.values() == [b"one", b"two", b"three"]


@CAPTURES
def test_older_position_than_the_task_has_committed_itself_is_not_believed(
    pipeline: Pipeline, database: embedded.Postgres | embedded.MariaDB, caplog: pytest.LogCaptureFixture
) -> None:
    committed: list[Committed] = []
    with task_running(pipeline), Watch(pipeline.settings) as watch:
        for value in ("one", "two"):
            pipeline.write(pipeline.message(value))
            wait_for(lambda: len(pipeline.values()) > len(committed), "the message to come")
            committed.append(pipeline.committed())
        pipeline.commit(committed[0])
        database.restart()
        wait_for(lambda: watch.view.figures().counts["interruptions"] > 2, "the task to doubt it")
        assert "Kafka tells an older position (1 records published) than was committed before (2)" in caplog.text
        assert pipeline.values() == [b"one", b"two"]
        pipeline.commit(committed[1])
        pipeline.write(pipeline.message("three"))
        wait_for(lambda: len(pipeline.values()) > 2, "the task to go on")
    assert pipeline.values() == [b"one", b"two", b"three"]


@contextmanager
def task_running(pipeline: Pipeline) -> Iterator[None]:
    """Meanwhile, the first shard's task runs, without anybody who leads."""
    epoch, registry = uuid4(), Registry(pipeline.settings)
    with closing(Consumer(client_config(pipeline.settings, {"group.id": pipeline.settings.leader_group_id}))) as nobody:
        registry.open_epoch(epoch, Term(uuid4(), nobody.consumer_group_metadata()))
    with ThreadPoolExecutor(1) as thread:
        report = thread.submit(ShardLoop(pipeline.settings, Shard(0, 1), epoch).run)
        try:
            yield
        finally:
            registry.open_epoch(uuid4(), Term(uuid4(), b""))
        assert report.result(30).ending == "superseded"


def test_position_of_another_database_is_refused(pipeline: Pipeline) -> None:
    pipeline.commit(Committed(1, Position("1234567890").encode()))
    with Relay(pipeline.settings, pipeline.spark) as relay, pytest.raises(PositionForeign, match="1234567890"):
        relay.wait(30)


def test_position_that_is_not_ours_is_refused(pipeline: Pipeline) -> None:
    pipeline.commit(Committed(1, "somebody else's"))
    with Relay(pipeline.settings, pipeline.spark) as relay, pytest.raises(PositionForeign, match="somebody else's"):
        relay.wait(30)


def test_rows_from_another_cluster_are_refused(pipeline: Pipeline) -> None:
    with pipeline.connect() as connection:
        connection.execute(
            f"INSERT INTO {pipeline.settings.outbox_table} (tx, topic) VALUES ('4000000000', %s)",
            (pipeline.topic,),
        )
    with Relay(pipeline.settings, pipeline.spark) as relay, pytest.raises(PositionForeign, match="4000000000"):
        relay.wait(30)


def test_preparing_again_changes_nothing(pipeline: Pipeline) -> None:
    again = prepare(pipeline.settings)
    assert again.migrations == []
    assert again.created_topics == []


def test_number_of_shards_is_fixed(make_pipeline: Callable[..., Pipeline]) -> None:
    pipeline = make_pipeline(shards=2)
    others = Settings.load(
        environment={},
        name=pipeline.settings.name,
        outbox_table=pipeline.settings.outbox_table,
        data_source=pipeline.settings.data_source,
        base_kafka_config=pipeline.settings.base_kafka_config,
        shards=3,
    )
    with pytest.raises(SettingsInvalid, match=r"shards: relay .* has 2"):
        Relay(others, pipeline.spark).start()


def test_relay_that_was_never_initialised_names_the_remedy(pipeline: Pipeline) -> None:
    other = Settings.load(
        environment={},
        name="never_initialised",
        outbox_table=pipeline.settings.outbox_table,
        data_source=pipeline.settings.data_source,
        base_kafka_config=pipeline.settings.base_kafka_config,
    )
    with pytest.raises(OutboxTableMissing, match='run "windrow init"'):
        Relay(other, pipeline.spark).start()


def test_writer_needs_nothing_but_the_right_to_insert(pipeline: Pipeline) -> None:
    table = pipeline.settings.outbox_table
    with pipeline.connect() as connection:
        connection.execute(f"CREATE ROLE {table}_writer")
        connection.execute(f"GRANT INSERT, SELECT (id) ON {table} TO {table}_writer")
        connection.execute(f"SET ROLE {table}_writer")
        assert pipeline.outbox.write(connection, Message(pipeline.topic, "value")) == 1
