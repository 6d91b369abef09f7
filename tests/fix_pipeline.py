"""A pipeline of its own for each test: an outbox, a relay and a topic that no other test touches."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pymysql
import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka import Message as Received
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, OffsetSpec, ResourceType
from psycopg.sql import SQL
from pyspark.sql import SparkSession

from windrow import Message, Outbox, embedded
from windrow.database.connections import connect
from windrow.errors import DatabaseUnreachable, Interrupted
from windrow.kafka.clients import client_config, committed_position, committed_positions, create_topic, position_reader
from windrow.publish.dead_letter import DeadLetters, LetterTable
from windrow.record import Committed
from windrow.relay import Relay
from windrow.relay.registry import Registry
from windrow.relay.setup import Storage, prepare
from windrow.settings import Settings

DEADLINE = 60.0
SOON, SELDOM = 0.02, 0.2
"""Seconds between two looks."""
SETTLES_WITHIN = 2.0


def wait_for(condition: Callable[[], Any], what: str, seconds: float = DEADLINE) -> None:
    """Wait until the condition holds; fail with `what` if it does not in time.

    A look that costs something is taken less often: it must not take the processor from what it waits for.
    """
    began = looked = time.monotonic()
    while not condition():
        now = time.monotonic()
        assert now < began + seconds, f"not within {seconds} s: {what}"
        time.sleep(min(max(SOON, 2 * (now - looked)), SELDOM))
        looked = time.monotonic()


def transaction_open(admin: AdminClient, topic: str) -> bool:
    """Whether a topic holds records that no transaction has committed or aborted yet."""
    partitions = admin.list_topics(topic).topics[topic].partitions
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
    ends = [
        [offset.result(10).offset for offset in admin.list_offsets(wanted, isolation_level=level).values()]
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
    ]
    return ends[0] != ends[1]


def received(settings: Settings, topic: str) -> list[Received]:
    """All that a consumer that reads committed gets from the topic, partition by partition.

    A coordinator tells of an end before the partitions know of it: they have a moment for that.
    """
    admin, settled_by = AdminClient(client_config(settings)), time.monotonic() + SETTLES_WITHIN
    while transaction_open(admin, topic) and time.monotonic() < settled_by:
        time.sleep(SOON)
    messages: list[Received] = []
    consumer = Consumer(
        client_config(
            settings,
            {
                "group.id": uuid4().hex,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                # The end of a partition is told with an answer, and an empty answer is held back for so long.
                "fetch.wait.max.ms": 10,
            },
        )
    )
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    ended: set[int] = set()
    deadline = time.monotonic() + DEADLINE
    while len(ended) < len(partitions):
        assert time.monotonic() < deadline, "the topic's end was not reached: an open transaction?"
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is None:
            messages.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
    consumer.close()
    return messages


class MariaConnection(pymysql.Connection):  # type: ignore[type-arg]
    """A connection of PyMySQL's with the face of psycopg's, as far as tests use it."""

    def execute(self, statement: str, parameters: Any = None) -> Any:
        cursor = self.cursor()
        cursor.execute(statement, parameters)
        return cursor

    def __exit__(self, *raised: object) -> None:
        self.rollback() if raised[0] else self.commit()
        self.close()


@dataclass
class Pipeline:
    """An outbox, the settings of its relay, and the topic that the test's messages go to."""

    settings: Settings
    topic: str
    spark: SparkSession

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.settings.outbox_table, max_value_bytes=100_000_000)
        self._published = 0
        self._positions: Consumer | None = None

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(client_config(self.settings))

    def connect(self) -> Any:
        """A connection of psycopg's or, to MariaDB, one that looks alike; not in autocommit."""
        if self.settings.dialect == "mysql":
            url = urlsplit(self.settings.data_source)
            return MariaConnection(
                host=url.hostname, port=url.port or 0, user=url.username, database=url.path[1:], sql_mode="ANSI_QUOTES"
            )
        return psycopg.connect(self.settings.data_source)

    def write(self, *messages: Message) -> None:
        """Write messages in one committed transaction."""
        with self.connect() as connection:
            for message in messages:
                self.outbox.write(connection, message)

    def message(self, value: bytes | str | None, key: bytes | str | None = "key", **more: Any) -> Message:
        return Message(self.topic, value, key, **more)

    @contextmanager
    def relay(self) -> Iterator[Relay]:
        """The relay, running; what stopped it before its time is raised."""
        with Relay(self.settings, self.spark) as relay:
            yield relay
        relay.wait()

    def published(self) -> int:
        """How many messages relays have published, whoever runs them; what it was before while Kafka is away."""
        self._positions = self._positions or position_reader(self.settings)
        try:
            shards = range(Registry(self.settings).shards())
            committed = committed_positions(self._positions, self.settings, shards)
        except (Interrupted, DatabaseUnreachable):
            self.close()  # one that has lost its broker waits ever longer until it looks for it again
        else:
            self._published = sum(at.published for at in committed.values())
        return self._published

    def close(self) -> None:
        """Close what was opened to look at positions."""
        if self._positions:
            self._positions.close()
            self._positions = None

    def committed(self, shard: int = 0) -> Committed:
        """What Kafka tells of a shard."""
        with closing(position_reader(self.settings)) as reader:
            at = committed_position(reader, self.settings, shard)
        assert at
        return at

    def commit(self, at: Committed, shard: int = 0) -> None:
        """Have Kafka tell this of a shard, while nobody leads."""
        offset = TopicPartition(self.settings.position_topic, shard, at.published, at.metadata)
        with closing(Consumer(client_config(self.settings, {"group.id": self.settings.leader_group_id}))) as consumer:
            consumer.commit(offsets=[offset], asynchronous=False)

    def wait_published(self, relay: Relay | None, count: int, seconds: float = DEADLINE) -> None:
        def done() -> bool:
            if relay:
                relay.wait(0)
            return self.published() >= count

        wait_for(done, f"{count} messages published", seconds)

    def received(self) -> list[Received]:
        return received(self.settings, self.topic)

    def break_off_reading(self) -> bool:
        """Whether the outbox was just being read in bulk; the server has ended that connection."""
        with self.connect() as connection:
            reading = "FROM pg_stat_activity WHERE starts_with(query, 'COPY') AND query ~ %s"
            ended = connection.execute(f"SELECT pg_terminate_backend(pid) {reading}", (self.settings.outbox_table,))
            return bool(ended.fetchall())

    def transaction_open(self) -> bool:
        return transaction_open(self._admin, self.topic)

    def values(self) -> list[bytes | None]:
        return [message.value() for message in self.received()]


class Foreign(Pipeline):
    """A pipeline over a table that somebody else has made, and that windrow has not been initialised on."""

    def execute(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            cursor = connection.execute(statement.format(table=self.settings.outbox_table), parameters or None)
            return list(cursor.fetchall()) if cursor.description else []

    def count(self, condition: str = "true") -> int:
        return int(self.execute(f"SELECT count(*) FROM {{table}} WHERE {condition}")[0][0])

    def bury(self, number: int) -> None:
        """Make a row a dead letter."""
        with connect(self.settings.data_source) as connection:
            LetterTable(self.settings, connection).execute("bury", letters=f"[[{number}, null]]", reason="of no use")

    def write_back(self) -> None:
        """Write the one dead letter to the outbox anew."""
        letters = DeadLetters(self.settings)
        assert (letters.retry(None), letters.write_back(SQL("true"))) == (1, 1)


@pytest.fixture
def strategy() -> dict[str, str]:
    """Settings of every pipeline of a test; those that hold for several strategies are parametrised with `CAPTURES`."""
    return {}


_ON_MARIADB = {"database": "mariadb", "capture": "mark"}
_CAPTURES = [{"capture": "snapshot"}, {"capture": "mark"}, _ON_MARIADB]
_LOG = {"capture": "tail"}
_BY_LIBRDKAFKA = {"producer_kafka_config": {"compression.type": "lz4"}}
_DELIVERIES = [
    *_CAPTURES,
    *({**each, "delivery": "at-least-once"} for each in ({"capture": "mark"}, _ON_MARIADB)),
]

_STRATEGIES = [
    {"database": database, "capture": capture, "delivery": delivery, "election": election}
    for database in ("postgres", "mariadb")
    for capture in ("snapshot", "mark", "sweep", "tail")
    for delivery in ("exactly-once", "at-least-once")
    for election in ("neli", "lease")
    if capture in {"mark", "sweep"} or (database, delivery) == ("postgres", "exactly-once")
]
"""All that make sense: snapshots and the log are PostgreSQL's, and they note nothing in the rows."""


def _named(strategy: dict[str, Any]) -> str:
    return " ".join(map(str, strategy.values()))


CAPTURES = pytest.mark.parametrize("strategy", _CAPTURES, ids=_named)
WAYS = pytest.mark.parametrize("strategy", [*_CAPTURES, _LOG, _BY_LIBRDKAFKA], ids=_named)
"""All ways in which a page is read, and both in which it is published exactly once."""
OTHERS = pytest.mark.parametrize("strategy", [*_CAPTURES[1:], _LOG], ids=_named)
"""All but snapshots."""
DATABASES = pytest.mark.parametrize("strategy", [{"capture": "snapshot"}, _ON_MARIADB], ids=["postgres", "mariadb"])
STRATEGIES = pytest.mark.parametrize("strategy", _STRATEGIES, ids=_named)
DELIVERIES = pytest.mark.parametrize("strategy", _DELIVERIES, ids=_named)
DELIVERIES_AND_LOG = pytest.mark.parametrize("strategy", [*_DELIVERIES, _LOG], ids=_named)


@pytest.fixture
def database(request: pytest.FixtureRequest, strategy: dict[str, str]) -> embedded.Postgres | embedded.MariaDB:
    """The shared server that the strategy names; PostgreSQL where it names none."""
    server: embedded.Postgres | embedded.MariaDB = request.getfixturevalue(strategy.get("database", "postgres"))
    return server


@pytest.fixture
def make_pipeline(
    database: embedded.Postgres | embedded.MariaDB, kafka: embedded.Kafka, spark: SparkSession, strategy: dict[str, str]
) -> Iterator[Callable[..., Pipeline]]:
    """Make a pipeline on the shared servers, with settings of its own. Its slot goes with the test."""
    chosen = {name: value for name, value in strategy.items() if name != "database"}
    made: list[Pipeline] = []

    def make(partitions: int = 2, storage: Storage = "plain", **settings: Any) -> Pipeline:
        given = {**chosen, **settings}
        made.append(pipeline_on(database.url, kafka.client_config, spark, partitions, storage, **given))
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.close()
        if pipeline.settings.tails:
            drop_slots(pipeline.settings)


def drop_slots(settings: Settings) -> None:
    """Drop a relay's slots, and whoever reads them."""
    with psycopg.connect(settings.data_source, autocommit=True) as connection:
        slots = "FROM pg_replication_slots WHERE starts_with(slot_name, %s)"
        mine = (f"windrow_{settings.name}_",)
        connection.execute(f"SELECT pg_terminate_backend(active_pid, 5000) {slots} AND active", mine)
        connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {slots}", mine)


@pytest.fixture
def make_foreign(
    database: embedded.Postgres | embedded.MariaDB, kafka: embedded.Kafka, spark: SparkSession, strategy: dict[str, str]
) -> Iterator[Callable[..., Any]]:
    """Make a pipeline of this kind over such a table, with settings of its own."""
    chosen = {name: value for name, value in strategy.items() if name != "database"}
    made: list[Foreign] = []

    def make(kind: type[Foreign], table: str, topic: str = "{name}.messages", **settings: Any) -> Foreign:
        name = f"foreign_{uuid4().hex[:8]}"
        loaded = Settings.load(
            environment={},
            name=name,
            outbox_table=name,
            data_source=database.url,
            base_kafka_config=kafka.client_config,
            **{**chosen, **settings},
        )
        pipeline = kind(loaded, topic.format(name=name), spark)
        made.append(pipeline)
        create_topic(loaded, pipeline.topic, 2)
        pipeline.execute(table)
        return pipeline

    yield make
    for each in made:
        each.close()


@pytest.fixture
def pipeline(make_pipeline: Callable[..., Pipeline]) -> Pipeline:
    return make_pipeline()


def pipeline_on(
    database: str,
    kafka: dict[str, str],
    spark: SparkSession,
    partitions: int = 2,
    storage: Storage = "plain",
    **settings: Any,
) -> Pipeline:
    """Make a pipeline on any servers."""
    name = f"test_{uuid4().hex[:12]}"
    loaded = Settings.load(
        environment={},
        name=name,
        outbox_table=name,
        data_source=database,
        base_kafka_config=kafka,
        **settings,
    )
    prepare(loaded, storage)
    create_topic(loaded, f"{name}.messages", partitions)
    return Pipeline(loaded, f"{name}.messages", spark)


def limit_message_size(pipeline: Pipeline, size: int) -> None:
    """Have the pipeline's topic refuse larger messages."""
    refuse_larger(pipeline.settings, pipeline.topic, size)


def refuse_larger(settings: Settings, topic: str, size: int) -> None:
    admin = AdminClient(client_config(settings))
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(30)
