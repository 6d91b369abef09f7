"""What the outbox costs those who write to it: inserts into windrow's table and into goharvest's, in turns."""

import time
from typing import Any, Final

import psycopg

from windrow.bench.bed import Bed
from windrow.bench.load import HEADERS, KEYS, key_of, value_of
from windrow.bench.writers import INSERT, PreparedInsert
from windrow.settings import Settings
from windrow.table import quoted

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
VALUES (now(), $1, $2, $3, {names}, {contents})
"""


def inserts(bed: Bed) -> dict[str, float]:
    with bed.lane() as lane:
        ours, theirs = bed.helpers.submit(insert_in_turns, lane.settings, lane.topic, bed.size.inserts).result()
    bed.say(f"  windrow's table {ours:,.0f} inserts/s, goharvest's {theirs:,.0f}")
    return {"insert_ratio": ours / theirs}


def insert_in_turns(settings: Settings, topic: str, count: int) -> tuple[float, float]:
    """Inserts a second into windrow's table and into goharvest's: one statement each, a hundred a transaction.

    Prepared statements, straight through libpq: it is the tables that are compared, not how parameters are made.
    """
    table = quoted(settings.outbox_table, "_goharvest")
    keys = [key_of(number, KEYS) for number in range(count // _TURNS)]
    seconds = [0.0, 0.0]
    with (
        psycopg.connect(settings.data_source, autocommit=True) as connection,
        psycopg.connect(settings.data_source, autocommit=True) as other,
    ):
        other.execute(_GOHARVEST.format(table=table))
        sides = (
            (connection, PreparedInsert(connection, INSERT, quoted(settings.outbox_table), topic)),
            (
                other,
                PreparedInsert(other, _STASH, table, topic, [(name, content.decode()) for name, content in HEADERS]),
            ),
        )
        try:
            for _ in range(_TURNS):
                for which, side in enumerate(sides):
                    seconds[which] += _insert(*side, keys)
        finally:
            other.execute(f"DROP TABLE {table}")
    return count / seconds[0], count / seconds[1]


def _insert(connection: psycopg.Connection[Any], insert: PreparedInsert, keys: list[bytes]) -> float:
    """Seconds that it took."""
    text, began = value_of(0)[8:].ljust(200), time.monotonic()
    for first in range(0, len(keys), _TRANSACTION):
        with connection.transaction():
            for key in keys[first : first + _TRANSACTION]:
                insert(key, text)
    return time.monotonic() - began
