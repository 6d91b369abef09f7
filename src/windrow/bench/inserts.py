"""What the outbox costs those who write to it: inserts into windrow's table and into goharvest's, in turns."""

import time
from typing import Any, Final

import psycopg

from windrow.bench.bed import Bed
from windrow.bench.load import HEADERS, KEYS, key_of, value_of
from windrow.message import Message
from windrow.outbox import Outbox
from windrow.settings import Settings
from windrow.table import quoted

_Statement = tuple[str, tuple[Any, ...]]
_TURNS: Final = 10
_TRANSACTION: Final = 100
_GOHARVEST: Final = """
CREATE TABLE {table} (
  id                  BIGSERIAL PRIMARY KEY,
  create_time         TIMESTAMP WITH TIME ZONE NOT NULL,
  kafka_topic         VARCHAR(249) NOT NULL,
  kafka_key           VARCHAR(100) NOT NULL,
  kafka_value         VARCHAR(10000),
  kafka_header_keys   TEXT[] NOT NULL,
  kafka_header_values TEXT[] NOT NULL,
  leader_id           UUID
)
"""
_STASH: Final = """
INSERT INTO {table} (create_time, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values)
VALUES (now(), %s, %s, %s, %s, %s)
"""


def inserts(bed: Bed) -> dict[str, float]:
    with bed.lane() as lane:
        ours, theirs = bed.helpers.submit(insert_in_turns, lane.settings, lane.topic, bed.size.inserts).result()
    bed.say(f"  windrow's table {ours:,.0f} inserts/s, goharvest's {theirs:,.0f}")
    return {"insert_ratio": ours / theirs}


def insert_in_turns(settings: Settings, topic: str, count: int) -> tuple[float, float]:
    """Inserts a second into windrow's table and into goharvest's: one statement each, a hundred a transaction.

    Statements are made before the clock runs: it is the tables that are compared, not who builds the messages.
    """
    outbox, table = Outbox(settings.outbox_table), quoted(settings.outbox_table, "_goharvest")
    headers = [(name, content.decode()) for name, content in HEADERS]
    names, contents = [name for name, _ in headers], [content for _, content in headers]
    text, stash = value_of(0)[8:].decode().ljust(200), _STASH.format(table=table)
    keys = [key_of(number, KEYS).decode() for number in range(count // _TURNS)]
    ours = [outbox.insert(Message(topic, key=key, value=text, headers=headers)) for key in keys]
    theirs = [(stash, (topic, key, text, names, contents)) for key in keys]
    seconds = [0.0, 0.0]
    with psycopg.connect(settings.data_source, autocommit=True) as connection:
        connection.execute(_GOHARVEST.format(table=table))
        try:
            for _ in range(_TURNS):
                for which, statements in enumerate((ours, theirs)):
                    seconds[which] += _insert(connection, statements)
        finally:
            connection.execute(f"DROP TABLE {table}")
    return count / seconds[0], count / seconds[1]


def _insert(connection: psycopg.Connection[Any], statements: list[_Statement]) -> float:
    """Seconds that it took."""
    began = time.monotonic()
    for first in range(0, len(statements), _TRANSACTION):
        with connection.transaction():
            for statement in statements[first : first + _TRANSACTION]:
                connection.execute(*statement)
    return time.monotonic() - began
