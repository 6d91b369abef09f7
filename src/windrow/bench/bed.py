"""What measurements stand on: servers, a Spark session, helper processes; and lanes, each with its own outbox.

Everything that a lane creates is removed with it, so that a user's own servers are left as they were.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from confluent_kafka.admin import AdminClient
from psycopg.sql import SQL
from pyspark.sql import SparkSession

from windrow import embedded
from windrow.bench.check import NONE, Faults, Numbers, faults
from windrow.bench.load import KEYS, backlog
from windrow.bench.size import Size
from windrow.database.connections import Connection, connect
from windrow.database.tables import Tables
from windrow.errors import EnvironmentUnfit
from windrow.kafka.clients import client_config, create_topic, topic_partitions
from windrow.relay import Relay
from windrow.relay.setup import default_shards, prepare
from windrow.relay.slot import remove
from windrow.settings import Settings
from windrow.spark.session import session

PARTITIONS: Final = 4
_FIRST_WITHIN: Final = 60.0
# Checkpoints would fall into some runs and not into others.
_POSTGRES: Final = {"max_wal_size": "16GB", "checkpoint_timeout": "1h", "shared_buffers": "512MB"}
# Kafka's defaults: the embedded broker's logs of its own are short, so that it restarts soon, and often cleaned.
_KAFKA: Final = dict.fromkeys(("offsets.topic.segment.bytes", "transaction.state.log.segment.bytes"), 100 * 1024 * 1024)


@dataclass
class Lane:
    """An outbox, its relay's settings, and a topic that nothing else uses."""

    settings: Settings
    topic: str
    spark: SparkSession

    @property
    def tables(self) -> Tables:
        return Tables.of(self.settings)

    def connect(self) -> Connection:
        return connect(self.settings.data_source, "windrow bench")

    def write_backlog(self, numbers: range, keys: int = KEYS) -> int:
        """Write the records of these numbers in one transaction; return when its commit returned."""
        with self.connect() as connection:
            connection.execute(backlog(self.tables, self.topic, numbers, keys))
            return time.monotonic_ns()

    @contextmanager
    def relaying(self) -> Iterator[Relay]:
        """The lane's relay, warm: record 0 has come through."""
        with Relay(self.settings, self.spark) as relay:
            self.write_backlog(range(1))
            deadline = time.monotonic() + _FIRST_WITHIN
            while relay.published() < 1:
                relay.wait(0)
                if time.monotonic() > deadline:
                    raise EnvironmentUnfit(
                        f"no record came through in {_FIRST_WITHIN:.0f} s; look at the servers' logs"
                    )
                time.sleep(0.05)
            yield relay
        relay.wait()


@dataclass
class Bed:
    """Servers and processes of one run, and the faults seen in it."""

    size: Size
    database: str
    kafka: Mapping[str, str]
    spark: SparkSession
    helpers: ProcessPoolExecutor
    say: Callable[[str], None]
    shards: int
    live_partitions: int
    """Partitions of the topic that a live load goes to."""
    embedded_kafka: bool
    faults: Faults = NONE

    def judge(self, received: Numbers, written: int, keys: int = KEYS) -> None:
        found = faults(received, written, keys)
        if found != NONE:
            self.say(f"  NOT SOUND: {found}")
        self.faults += found

    @contextmanager
    def lane(self, epoch: float = 3_600.0, partitions: int = PARTITIONS, **settings: Any) -> Iterator[Lane]:
        name = f"windrow_bench_{uuid4().hex[:8]}"
        given = {
            "data_source": self.database,
            "base_kafka_config": self.kafka,
            "shards": self.shards,
            "epoch": timedelta(seconds=epoch),
            **settings,
        }
        loaded = Settings.load(environment={}, name=name, outbox_table=name, **given)
        lane = Lane(loaded, f"{name}.records", self.spark)
        try:
            prepare(loaded)
            create_topic(loaded, lane.topic, partitions)
            yield lane
        finally:
            _remove(lane)


def _remove(lane: Lane) -> None:
    if lane.settings.tails:
        remove(lane.settings)
    with lane.connect() as connection:
        for table in reversed(lane.tables.named.values()):
            connection.execute(SQL("DROP TABLE IF EXISTS {} CASCADE").format(table))
    admin = AdminClient(client_config(lane.settings))
    topics = {lane.topic, lane.settings.leader_topic, lane.settings.position_topic}
    there = topics & admin.list_topics(timeout=10).topics.keys()
    for future in admin.delete_topics([*there]).values():
        future.result(10)


@dataclass(frozen=True, slots=True)
class _Brokers:
    base_kafka_config: Mapping[str, str]


@contextmanager
def open_bed(
    size: Size, database: str | None, kafka: str | None, say: Callable[[str], None], live_partitions: int = 1
) -> Iterator[Bed]:
    """A bed on the given servers, or on embedded ones of its own."""
    with ExitStack() as stack:
        if database is None:
            say("starting PostgreSQL …")
            database = stack.enter_context(embedded.Postgres(settings=_POSTGRES)).url
        config: Mapping[str, str] = {"bootstrap.servers": kafka or ""}
        if kafka is None:
            say("starting Kafka …")
            config = stack.enter_context(embedded.Kafka(settings=_KAFKA)).client_config
        else:
            topic_partitions(_Brokers(config))  # those that are away are a mistake before anything is begun
        say("starting Spark local[*] …")
        spark = session({}, "bench", for_python=True)
        stack.callback(spark.stop)
        shards = default_shards()
        helpers = ProcessPoolExecutor(shards + 2, multiprocessing.get_context("spawn"))
        stack.callback(helpers.shutdown, cancel_futures=True)
        yield Bed(size, database, config, spark, helpers, say, shards, live_partitions, kafka is None)
