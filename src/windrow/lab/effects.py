"""A consumer with an inbox at work: each message has an effect in the database, once, whatever happens meanwhile."""

import signal
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from windrow.database.connections import connect, connect_plainly
from windrow.inbox import ConsumerSettings, Inbox, InboxConsumer
from windrow.lab.history import Effect
from windrow.settings import Settings

_GROUP: Final = "lab"
# Without a key: what is there twice is to be seen twice.
_TABLE: Final = "CREATE TABLE IF NOT EXISTS lab_effect (message varchar(40) NOT NULL)"


def create_effects(settings: Settings) -> None:
    with connect(settings.data_source) as connection:
        connection.execute(_TABLE)
    with closing(connect_plainly(settings.data_source)) as connection:
        Inbox(_GROUP).create(connection)
        connection.commit()


def run_consumer(data_source: str, kafka: Mapping[str, str], topic: str) -> None:
    """Consume until SIGTERM. To be run in a process of its own."""
    settings = ConsumerSettings(data_source=data_source, base_kafka_config=kafka, group=_GROUP, topics=(topic,))
    consumer = InboxConsumer(settings, _note)
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    consumer.run()


def _note(connection: Any, message: Any) -> None:
    identity = bytes(message.value()).split(b" ", 1)[0].decode()
    connection.cursor().execute("INSERT INTO lab_effect VALUES (%s)", (identity,))


def read_effects(settings: Settings) -> list[Effect]:
    with connect(settings.data_source) as connection:
        return [
            Effect(message, _GROUP, "ok")
            for (message,) in connection.execute("SELECT message FROM lab_effect").fetchall()
        ]
