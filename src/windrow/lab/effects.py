"""Consumers with an inbox at work: each message has an effect in the database, once, whatever happens meanwhile."""

import signal
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from windrow.database.connections import connect, connect_plainly
from windrow.inbox import ConsumerSettings, Inbox, InboxConsumer
from windrow.lab.history import Effect
from windrow.settings import Settings

_GROUP: Final = "lab"
# Without a key: what is there twice is to be seen twice.
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS lab_effect (
  message varchar(40) NOT NULL, place integer NOT NULL, began double precision NOT NULL, at double precision NOT NULL
)"""
SESSION: Final = 6.0
"""Seconds after which its group does without a consumer that is silent."""


def create_effects(settings: Settings) -> None:
    with connect(settings.data_source) as connection:
        connection.execute(_TABLE)
    with closing(connect_plainly(settings.data_source)) as connection:
        Inbox(_GROUP).create(connection)
        connection.commit()


def run_consumer(data_source: str, kafka: Mapping[str, str], topic: str) -> None:
    """Consume until SIGTERM. To be run in a process of its own."""
    own = {**kafka, "session.timeout.ms": str(int(SESSION * 1000)), "heartbeat.interval.ms": "1000"}
    settings = ConsumerSettings(data_source=data_source, base_kafka_config=own, group=_GROUP, topics=(topic,))
    consumer = InboxConsumer(settings, _note)
    signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    consumer.run()


def _note(connection: Any, message: Any) -> None:
    identity, began, _ = bytes(message.value()).split(b" ", 2)
    values = (identity.decode(), message.partition(), float(began), time.monotonic())
    connection.cursor().execute("INSERT INTO lab_effect VALUES (%s, %s, %s, %s)", values)


def read_effects(settings: Settings) -> list[Effect]:
    with connect(settings.data_source) as connection:
        rows = connection.execute("SELECT message, at FROM lab_effect").fetchall()
    return [Effect(message, _GROUP, "ok", at) for message, at in rows]


def newest_effect(settings: Settings) -> float:
    """When the latest transaction began of which a message has had its effect, in the partition that is last."""
    with connect(settings.data_source) as connection:
        rows = connection.execute("SELECT max(began) FROM lab_effect GROUP BY place").fetchall()
    return min((began for (began,) in rows), default=0.0)
