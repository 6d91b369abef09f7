"""A consumer with an inbox: a topic, a table of effects, and consumers in threads and in processes of their own.

An effect is a row that counts how often its message was handled; what it was to be is judged from the table alone.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pymysql
import pytest
from confluent_kafka import Producer

from fix_pipeline import wait_for
from windrow import embedded
from windrow.database.connections import connect_plainly
from windrow.inbox import ConsumerSettings, Inbox, InboxConsumer
from windrow.kafka.clients import client_config, create_topic

DATABASES = pytest.mark.parametrize("kind", ["postgres", "mariadb"])


@dataclass
class Consuming:
    """The settings of consumers, and what they have done."""

    settings: ConsumerSettings
    table: str

    def produce(self, numbers: range, *, partition: int = -1, **more: Any) -> None:
        """Produce messages whose value is their number."""
        producer = Producer(client_config(self.settings, {"linger.ms": 5}))
        for number in numbers:
            to = number % 2 if partition < 0 else partition
            producer.produce(self.settings.topics[0], str(number), partition=to, **more)
        assert producer.flush(30) == 0

    def connect(self) -> Any:
        return connect_plainly(self.settings.data_source)

    def execute(self, statement: str) -> list[tuple[Any, ...]]:
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            rows = list(cursor.fetchall()) if cursor.description else []
            connection.commit()
            return rows

    def effects(self) -> dict[int, int]:
        """How often the message of each number had its effect."""
        return dict(self.execute(f"SELECT number, times FROM {self.table}"))  # type: ignore[arg-type]

    def offsets(self) -> dict[int, int]:
        columns = '"partition"' if "postgres" in self.settings.data_source else "`partition`"
        return dict(self.execute(f"SELECT {columns}, next_offset FROM {self.table}_inbox_offset"))  # type: ignore[arg-type]

    def handle(self, connection: Any, message: Any) -> None:
        count(self.table, connection, message)

    def with_settings(self, **settings: Any) -> "Consuming":
        return replace(self, settings=replace(self.settings, **settings))

    @contextmanager
    def consumer(self, handler: Callable[[Any, Any], object] | None = None) -> Iterator[InboxConsumer]:
        """A consumer in a thread; what ended it is raised."""
        consumer = InboxConsumer(self.settings, handler or self.handle)
        raised: list[BaseException] = []

        def run() -> None:
            try:
                consumer.run()
            except BaseException as error:  # noqa: BLE001 - handed on
                raised.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield consumer
        finally:
            consumer.stop()
            thread.join(60)
        assert not thread.is_alive()
        if raised:
            raise raised[0]

    @contextmanager
    def process(self, *, slow: float = 0.0) -> Iterator[subprocess.Popen[bytes]]:
        """A consumer in a process of its own."""
        program = (
            "import time\nfrom fix_consumer import count\n"
            "from windrow.inbox import ConsumerSettings, InboxConsumer\n"
            f"settings = {settings_code(self.settings)}\n"
            f"def handle(connection, message):\n    count({self.table!r}, connection, message)\n"
            f"    time.sleep({slow})\n"
            "InboxConsumer(settings, handle).run()\n"
        )
        path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
        with subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}) as process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGKILL)

    def wait_for_effects(self, count: int, seconds: float = 60.0) -> None:
        wait_for(lambda: len(self.effects()) >= count, f"{count} effects", seconds)


def settings_code(settings: ConsumerSettings) -> str:
    config = dict(settings.base_kafka_config)
    return (
        f"ConsumerSettings(base_kafka_config={config!r}, group={settings.group!r}, topics={settings.topics!r},"
        f" data_source={settings.data_source!r}, inbox_table={settings.inbox_table!r},"
        f" batch_records={settings.batch_records!r})"
    )


def count(table: str, connection: Any, message: Any) -> None:
    """The effect of a message: its row says how often."""
    statement = f"INSERT INTO {table} (number, times) VALUES (%s, 1) "
    if isinstance(connection, psycopg.Connection):
        statement += f"ON CONFLICT (number) DO UPDATE SET times = {table}.times + 1"
    else:
        assert isinstance(connection, pymysql.Connection)
        statement += "ON DUPLICATE KEY UPDATE times = times + 1"
    with connection.cursor() as cursor:
        cursor.execute(statement, (int(message.value()),))


@pytest.fixture
def kind() -> str:
    return "postgres"


@pytest.fixture
def consuming(request: pytest.FixtureRequest, kafka: embedded.Kafka, kind: str) -> Consuming:
    """A topic of two partitions and the tables, for consumers of one group."""
    name = f"test_{uuid4().hex[:12]}"
    settings = ConsumerSettings(
        base_kafka_config={**kafka.client_config, "session.timeout.ms": "6000", "heartbeat.interval.ms": "500"},
        group=name,
        topics=(f"{name}.messages",),
        data_source=request.getfixturevalue(kind).url,
        inbox_table=f"{name}_inbox",
    )
    create_topic(settings, settings.topics[0], 2)
    made = Consuming(settings, name)
    with closing(made.connect()) as connection:
        Inbox(name, settings.inbox_table).create(connection)
        connection.commit()
    made.execute(f"CREATE TABLE {name} (number integer PRIMARY KEY, times integer NOT NULL)")
    return made
