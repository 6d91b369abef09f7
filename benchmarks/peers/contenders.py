"""Who is compared: each relays from an outbox of its own layout to a topic, and promises something."""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers import goharvest, tables, tomorrow_one
from benchmarks.peers.connect import Connect
from benchmarks.peers.tables import Table
from windrow.bench.bed import Bed
from windrow.bench.load import KEYS
from windrow.database.connections import Connection, connect
from windrow.errors import EnvironmentUnfit
from windrow.kafka.clients import client_config, create_topic
from windrow.settings import Settings
from windrow.table import quoted

WINDROW: Final = "windrow"
DISPATCHED: Final = "windrow, dispatched"
OURS: Final = (WINDROW, DISPATCHED)
"""Those that are compared with the others, not with each other."""
_FIRST_WITHIN: Final = 60.0


@dataclass(frozen=True, slots=True)
class Track:
    """A contender at work: its outbox, and the topic that it relays to."""

    settings: Settings
    topic: str
    table: Table

    def connect(self) -> Connection:
        return connect(self.settings.data_source, "windrow bench")

    def write(self, numbers: range, keys: int = KEYS, repeated: str = tables.EVEN) -> int:
        """Write the records of these numbers in one transaction; return when its commit returned."""
        name = quoted(self.settings.outbox_table)
        with self.connect() as connection:
            connection.execute(self.table.backlog(name, self.topic, numbers, keys, repeated))
            return time.monotonic_ns()


class Contender(Protocol):
    """`track` yields once record 0 has come through."""

    @property
    def name(self) -> str: ...
    @property
    def promise(self) -> str:
        """What it promises, and what it needs or leaves behind."""
        ...

    @property
    def settings(self) -> str:
        """What it was measured with, beside its defaults."""
        ...

    @property
    def untuned(self) -> bool:
        """Whether another contender is the same, only faster."""
        ...

    @property
    def dispatched(self) -> bool:
        """Whether the writers send by themselves, right after their commit."""
        ...

    def track(self, bed: Bed, partitions: int) -> AbstractContextManager[Track]: ...


@dataclass(frozen=True, slots=True)
class Windrow:
    name: str
    settings: str
    promise: str
    own: Mapping[str, Any]
    dispatched: bool = False
    untuned: bool = False

    @contextmanager
    def track(self, bed: Bed, partitions: int) -> Iterator[Track]:
        with bed.lane(partitions=partitions, **self.own) as lane, lane.relaying():
            yield Track(lane.settings, lane.topic, tables.WINDROW)


@dataclass(frozen=True, slots=True)
class Debezium:
    connect: Connect
    name: str
    settings: str
    own: Mapping[str, str]
    untuned: bool = False
    dispatched: bool = False
    promise: str = (
        "at least once in standalone mode (exactly once takes a distributed Connect); in the order of commits; reads "
        "the log: needs a replication slot, which holds the log back while nobody reads; rows stay until deleted"
    )

    @contextmanager
    def track(self, bed: Bed, partitions: int) -> Iterator[Track]:
        with _track(bed, partitions, tables.DEBEZIUM) as track:
            name = track.settings.outbox_table
            try:
                with self.connect.connector(name, self._config(bed.database, name)):
                    _await(lambda: _slot_active(track, name), "Debezium's slot is not active")
                    _await_first(track)
                    yield track
            finally:
                with track.connect() as connection:
                    connection.execute(f"DROP PUBLICATION IF EXISTS {quoted(name)}".encode())

    def _config(self, database: str, name: str) -> dict[str, str]:
        found = conninfo_to_dict(database)
        router = "transforms.outbox"
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "plugin.name": "pgoutput",
            "database.hostname": str(found["host"]),
            "database.port": str(found["port"]),
            "database.user": str(found["user"]),
            "database.password": str(found.get("password", "")),
            "database.dbname": str(found["dbname"]),
            "topic.prefix": name,
            "slot.name": name,
            "slot.drop.on.stop": "true",
            "publication.name": name,
            "publication.autocreate.mode": "filtered",
            "table.include.list": f"public.{name}",
            "transforms": "outbox",
            f"{router}.type": "io.debezium.transforms.outbox.EventRouter",
            f"{router}.route.topic.replacement": "${routedByValue}",
            f"{router}.table.fields.additional.placement": "content_type:header:content-type,trace:header:trace",
            **self.own,
        }


@dataclass(frozen=True, slots=True)
class Process:
    """A baseline: a function in a process of its own, given the database, the table and how Kafka is reached."""

    name: str
    settings: str
    promise: str
    table: Table
    work: Callable[..., None]
    arguments: tuple[Any, ...] = ()
    untuned: bool = False
    dispatched: bool = False

    @contextmanager
    def track(self, bed: Bed, partitions: int) -> Iterator[Track]:
        with _track(bed, partitions, self.table) as track:
            given = (bed.database, quoted(track.settings.outbox_table), dict(bed.kafka), *self.arguments)
            process = multiprocessing.get_context("spawn").Process(target=self.work, args=given, daemon=True)
            process.start()
            try:
                _await_first(track)
                yield track
                if process.exitcode is not None:
                    raise EnvironmentUnfit(f"the process of {self.name} ended; mend what it said above")
            finally:
                process.terminate()
                process.join()


def contenders(connect: Connect) -> tuple[Contender, ...]:
    """All, ours first."""
    tuned = {
        "poll.interval.ms": "5",
        "max.batch.size": "20480",
        "max.queue.size": "81920",
        "producer.override.batch.size": "131072",
        "producer.override.linger.ms": "1",
    }
    at_least_once = "at least once; "
    theirs = (
        f"{at_least_once}in the order of ids among visible rows; an UPDATE for each record, which stays for 30 days"
    )
    return (
        Windrow(
            WINDROW,
            "defaults",
            "exactly once for consumers that read committed, in order for each key; no write to the database for a "
            "record, purge in bulk; needs Spark; standbys take over",
            {},
        ),
        Windrow(
            DISPATCHED,
            "capture=sweep; a Dispatcher in the writers' process",
            f"{at_least_once}in order for each key as long as nothing fails (what the relay sends later is not ordered "
            "with it); the application sends by itself, the relay only what that could not; an UPDATE in bulk, rows "
            "stay for purge.retention",
            {"capture": "sweep"},
            dispatched=True,
        ),
        Debezium(connect, "Debezium", "defaults", {}, untuned=True),
        Debezium(connect, "Debezium, tuned", ", ".join(f"{key}={value}" for key, value in tuned.items()), tuned),
        Process(
            "goharvest's way",
            "its defaults: 100 a mark, 1,000 in flight, 8 cells, 10 ms between marks of nothing",
            f"{at_least_once}in order for each key; an UPDATE and a DELETE for each record",
            tables.GOHARVEST,
            goharvest.harvest,
        ),
        Process(
            "tomorrow-one's way",
            "as proposed: 100 a batch, processing interval of 200 ms",
            theirs,
            tables.TOMORROW_ONE,
            tomorrow_one.process,
            (tomorrow_one.PROCESSING_INTERVAL,),
            untuned=True,
        ),
        Process(
            "tomorrow-one's way, hurried",
            "100 a batch, no processing interval",
            theirs,
            tables.TOMORROW_ONE,
            tomorrow_one.process,
            (0.0,),
        ),
    )


@contextmanager
def _track(bed: Bed, partitions: int, table: Table) -> Iterator[Track]:
    """A table and a topic, removed afterwards."""
    name = f"windrow_bench_{uuid4().hex[:8]}"
    given: dict[str, Any] = {"data_source": bed.database, "base_kafka_config": bed.kafka}
    track = Track(Settings.load(environment={}, name=name, outbox_table=name, **given), f"{name}.records", table)
    try:
        with track.connect() as connection:
            connection.execute(table.create.format(table=quoted(name)).encode())
        create_topic(track.settings, track.topic, partitions)
        yield track
    finally:
        with track.connect() as connection:
            connection.execute(f"DROP TABLE IF EXISTS {quoted(name)}".encode())
        admin = AdminClient(client_config(track.settings))  # kept: it takes its answers along when it goes
        for future in admin.delete_topics([track.topic]).values():
            future.result(10)


def _await_first(track: Track) -> None:
    track.write(range(1))
    consumer = Consumer(client_config(track.settings, {"group.id": "windrow-bench"}))
    parts = consumer.list_topics(track.topic, timeout=_FIRST_WITHIN).topics[track.topic].partitions
    places = [TopicPartition(track.topic, part, 0) for part in parts]
    consumer.assign(places)
    _await(lambda: consumer.poll(0.05) is not None, "no record came through")
    consumer.close()


def _slot_active(track: Track, name: str) -> bool:
    query = b"SELECT active FROM pg_replication_slots WHERE slot_name = %s"
    with track.connect() as connection:
        row = connection.execute(query, (name,)).fetchone()
    return bool(row and row[0])


def _await(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + _FIRST_WITHIN
    while not condition():
        if time.monotonic() > deadline:
            raise EnvironmentUnfit(f"{otherwise} in {_FIRST_WITHIN:.0f} s; look at the servers' logs")
        time.sleep(0.05)
