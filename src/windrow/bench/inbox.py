"""What the inbox costs a consumer, against the bare upserts; and whether killing consumers doubles or loses an effect.

The bare upserts are of messages that are there already, on one connection, in transactions of the same size: neither
Kafka nor offsets nor an inbox. The handler does the same upsert. Both commit durably, and take turns.
"""

import multiprocessing
import platform
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from statistics import median
from typing import Any, Final
from uuid import uuid4

import confluent_kafka
import psycopg
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from psycopg.sql import SQL, Identifier

from windrow import embedded
from windrow.bench.load import HEADERS, KEYS, key_of, number_in, value_of
from windrow.errors import EnvironmentUnfit
from windrow.inbox import ConsumerSettings, Inbox, InboxConsumer
from windrow.kafka.clients import client_config, create_topic, topic_partitions

_PARTITIONS: Final = 4
_WITHIN: Final = 120.0
_UPSERT: Final = "INSERT INTO {} (number, times) VALUES (%s, 1) ON CONFLICT (number) DO UPDATE SET times = {}.times + 1"


@dataclass(frozen=True, slots=True)
class InboxSize:
    """How much is measured."""

    messages: int
    rounds: int
    kills: int
    pause: float
    """A consumer is killed at a random time until so many seconds after its first effect."""


FULL_INBOX: Final = InboxSize(messages=50_000, rounds=3, kills=20, pause=0.3)
QUICK_INBOX: Final = InboxSize(messages=5_000, rounds=1, kills=2, pause=0.05)


@dataclass(frozen=True, slots=True)
class _Bench:
    settings: ConsumerSettings
    effects: str

    def connect(self) -> "_Timed":
        return _Timed.connect(self.settings.data_source)


class _Timed(psycopg.Connection[tuple[Any, ...]]):
    """A connection that knows when it last committed."""

    committed_at = 0.0

    def commit(self) -> None:
        super().commit()
        self.committed_at = time.perf_counter()


class _Upsert:
    """The handler: one upsert. It knows when it began and how often it ran."""

    def __init__(self, effects: str) -> None:
        self._statement = _UPSERT.format(effects, effects).encode()
        self.began_at, self.calls = 0.0, 0

    def __call__(self, connection: psycopg.Connection[Any], message: Any) -> None:
        if not self.calls:
            self.began_at = time.perf_counter()
        self.calls += 1
        connection.execute(self._statement, (int.from_bytes(number_in(message.value()), "big"),))


def measure_inbox(
    database: str | None, kafka: str | None, size: InboxSize, say: Callable[[str], None]
) -> dict[str, Any]:
    """`inbox_ratio`, `doubled` and `missed`, on these servers or on embedded ones."""
    with ExitStack() as stack:
        if database is None:
            say("starting PostgreSQL …")
            database = stack.enter_context(embedded.Postgres()).url
        config: Mapping[str, str] = {"bootstrap.servers": kafka or ""}
        if kafka is None:
            say("starting Kafka …")
            config = stack.enter_context(embedded.Kafka()).client_config
        bench = stack.enter_context(_prepared(database, config, size.messages))
        say("the consumer against the bare upserts …")
        rates = [(_consumed(bench, size, each), _bare(bench, size)) for each in range(size.rounds)]
        ours, bare = (median(side) for side in zip(*rates, strict=True))
        say(f"  inbox consumer {ours:,.0f} messages/s, bare upserts {bare:,.0f}")
        say(f"{size.kills} consumers killed …")
        kills = _killed(bench, size)
        doubled, missed = _judged(bench, size.messages)
        say(f"  {kills} were killed at work")
        figures = {"inbox_ratio": round(ours / bare, 3), "inbox_messages_per_s": round(ours)}
        return {**figures, "kills": kills, "doubled": doubled, "missed": missed, "versions": _versions(bench)}


def _consumed(bench: _Bench, size: InboxSize, turn: int) -> float:
    """Messages/s of a consumer of a group of its own, from its first call of the handler to its last commit."""
    _emptied(bench)
    connections: list[_Timed] = []
    upsert = _Upsert(bench.effects)
    settings = replace(bench.settings, group=f"{bench.settings.group}.{turn}")

    def connect() -> _Timed:
        connections.append(bench.connect())
        return connections[-1]

    def handle(connection: Any, message: Any) -> None:
        upsert(connection, message)
        if upsert.calls == size.messages:
            consumer.stop()

    consumer = InboxConsumer(settings, handle, connect)
    consumer.run()
    return size.messages / (connections[-1].committed_at - upsert.began_at)


def _bare(bench: _Bench, size: InboxSize) -> float:
    _emptied(bench)
    statement = _UPSERT.format(bench.effects, bench.effects).encode()
    with closing(bench.connect()) as connection:
        began_at = time.perf_counter()
        for number in range(size.messages):
            connection.execute(statement, (number,))
            if (number + 1) % bench.settings.batch_records == 0:
                connection.commit()
        connection.commit()
        return size.messages / (connection.committed_at - began_at)


def _killed(bench: _Bench, size: InboxSize) -> int:
    """Kill consumers at random places of their work, then let one finish; how many were killed while work was left."""
    _emptied(bench)
    # As a static member, who comes next gets the partitions of who was killed at once.
    config = {**bench.settings.base_kafka_config, "group.instance.id": bench.effects}
    settings = replace(bench.settings, base_kafka_config=config, batch_records=100)
    kills = 0
    for _ in range(size.kills):
        before = _done(bench)
        with _process(settings, bench.effects):
            _wait_for(bench, min(before + 1, size.messages))
            time.sleep(random.uniform(0, size.pause))  # noqa: S311 - where it dies is no secret
        kills += _done(bench) < size.messages
    with _process(settings, bench.effects):
        _wait_for(bench, size.messages)
    return kills


def _wait_for(bench: _Bench, messages: int) -> None:
    deadline = time.monotonic() + _WITHIN
    while _done(bench) < messages:
        if time.monotonic() > deadline:
            raise EnvironmentUnfit(f"the consumer made no progress in {_WITHIN:.0f} s; look at the servers' logs")
        time.sleep(0.01)


@contextmanager
def _process(settings: ConsumerSettings, effects: str) -> Iterator[None]:
    """A consumer in a process of its own, which ends by being killed."""
    process = multiprocessing.get_context("spawn").Process(target=_consume, args=(settings, effects), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def _consume(settings: ConsumerSettings, effects: str) -> None:
    InboxConsumer(settings, _Upsert(effects)).run()


def _done(bench: _Bench) -> int:
    """How many messages the group has behind it: offsets begin with 0, and nothing was compacted."""
    with closing(psycopg.connect(bench.settings.data_source)) as connection:
        table = SQL("SELECT coalesce(sum(next_offset), 0) FROM {} WHERE name = %s")
        row = connection.execute(table.format(Identifier(f"{bench.effects}_inbox_offset")), [bench.settings.group])
        return int((row.fetchone() or (0,))[0])


def _judged(bench: _Bench, messages: int) -> tuple[int, int]:
    """Effects that happened more than once, and messages without an effect."""
    with closing(bench.connect()) as connection:
        rows = connection.execute(SQL("SELECT number, times FROM {}").format(Identifier(bench.effects))).fetchall()
    doubled = sum(times - 1 for _, times in rows)
    return doubled, messages - len(rows)


def _emptied(bench: _Bench) -> None:
    with closing(bench.connect()) as connection:
        connection.execute(SQL("TRUNCATE {}").format(Identifier(bench.effects)))
        connection.commit()


@contextmanager
def _prepared(database: str, kafka: Mapping[str, str], messages: int) -> Iterator[_Bench]:
    """Tables and a topic with the messages, removed at the end."""
    name = f"windrow_bench_{uuid4().hex[:8]}"
    settings = ConsumerSettings(
        base_kafka_config=kafka,
        group=name,
        topics=(f"{name}.records",),
        data_source=database,
        inbox_table=f"{name}_inbox",
    )
    bench = _Bench(settings, name)
    topic_partitions(settings)  # brokers that are away are a mistake before there is anything to remove
    with ExitStack() as stack:
        stack.callback(partial(_remove, bench))
        with closing(bench.connect()) as connection:
            Inbox(name, settings.inbox_table).create(connection)
            connection.execute(
                SQL("CREATE TABLE {} (number bigint PRIMARY KEY, times integer NOT NULL)").format(Identifier(name))
            )
            connection.commit()
        create_topic(settings, settings.topics[0], _PARTITIONS)
        _produce(settings, messages)
        yield bench


def _produce(settings: ConsumerSettings, messages: int) -> None:
    producer = Producer(client_config(settings, {"linger.ms": 50, "partitioner": "murmur2_random"}))
    for number in range(messages):
        own: Any = [*HEADERS, ("x-sequence", b"%d" % number), ("x-source", b"bench")]
        producer.produce(settings.topics[0], value_of(number), key_of(number, KEYS), headers=own)
        if number % 1_000 == 0:
            producer.poll(0)
    if producer.flush(60):
        raise EnvironmentUnfit("the messages could not be produced within 60 s; look at the broker's log")


def _remove(bench: _Bench) -> None:
    with closing(bench.connect()) as connection:
        for table in (bench.effects, f"{bench.effects}_inbox", f"{bench.effects}_inbox_offset"):
            connection.execute(SQL("DROP TABLE IF EXISTS {}").format(Identifier(table)))
        connection.commit()
    admin = AdminClient(client_config(bench.settings))
    there = {*bench.settings.topics} & admin.list_topics(timeout=10).topics.keys()
    for future in admin.delete_topics([*there]).values() if there else ():
        future.result(10)


def _versions(bench: _Bench) -> dict[str, str]:
    with closing(bench.connect()) as connection:
        row = connection.execute("SHOW server_version").fetchone()
    return {
        "windrow": version("windrow"),
        "python": platform.python_version(),
        "postgresql": row[0].split()[0] if row else "?",
        "psycopg": version("psycopg"),
        "librdkafka": confluent_kafka.libversion()[0],
    }
