"""goharvest's way (mark-purge/reset), with its defaults: a faithful baseline, in a process of its own.

One statement marks the next 100 rows; records go to one of 8 cells by their key's hash; a cell holds one record back
while another of the same key is in flight, and the marker while it holds one; at most 1,000 are in flight. Each
acknowledgement is followed by one DELETE, committed by itself, and only then is the key free. Nothing to mark: 10 ms.

Kinder than the original in this: one producer for all cells, so that Kafka gets larger batches; the marker has a
connection beside the two that purge, which share those two there; no leader's heartbeats.
"""

import threading
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, NamedTuple
from uuid import uuid4
from zlib import crc32

import psycopg
from confluent_kafka import KafkaError, KafkaException, Message, Producer

MARK_QUERY_RECORDS: Final = 100
MAX_IN_FLIGHT_RECORDS: Final = 1_000
SEND_CONCURRENCY: Final = 8
MARK_BACKOFF: Final = 0.01
PURGING_CONNECTIONS: Final = 2
PRODUCER: Final[Mapping[str, Any]] = {"enable.idempotence": True, "acks": "all", "linger.ms": 0.5}
_MARK: Final = """
UPDATE {table} SET leader_id = %(leader)s
WHERE id IN (SELECT id FROM {table} WHERE leader_id IS NULL OR leader_id != %(leader)s ORDER BY id LIMIT %(limit)s)
RETURNING id, kafka_topic, kafka_key, kafka_value, kafka_header_keys, kafka_header_values
"""


class _Record(NamedTuple):
    id: int
    topic: str
    key: str
    value: bytes | None
    header_keys: list[str]
    header_values: list[str]


def harvest(source: str, table: str, kafka: Mapping[str, str]) -> None:
    """Harvest until the process is ended."""
    work = _Harvest(source, table, kafka)
    with ThreadPoolExecutor(PURGING_CONNECTIONS + 2) as threads:
        parts = [work.mark, work.poll, *[work.purge] * PURGING_CONNECTIONS]
        done, _ = wait([threads.submit(part) for part in parts], return_when=FIRST_EXCEPTION)
        for part in done:
            part.result()


class _Harvest:
    def __init__(self, source: str, table: str, kafka: Mapping[str, str]) -> None:
        self._source, self._table = source, table
        self._producer = Producer({**kafka, **PRODUCER})
        self._acknowledged: SimpleQueue[_Record] = SimpleQueue()
        self._changed = threading.Condition()
        self._in_flight: set[str] = set()
        self._held: dict[int, _Record] = {}

    def mark(self) -> None:
        leader = uuid4()
        query = _MARK.format(table=self._table).encode()
        with psycopg.connect(self._source, autocommit=True) as connection, connection.cursor(binary=True) as cursor:
            while True:
                cursor.execute(query, {"leader": leader, "limit": MARK_QUERY_RECORDS}, prepare=True)
                records = sorted(_Record(*row) for row in cursor)
                for record in records:
                    self._enqueue(record)
                if not records:
                    time.sleep(MARK_BACKOFF)

    def poll(self) -> None:
        while True:
            self._producer.poll(0.1)

    def purge(self) -> None:
        query = f"DELETE FROM {self._table} WHERE id = %s".encode()  # noqa: S608 - the bench's own table
        with psycopg.connect(self._source, autocommit=True) as connection, connection.cursor() as cursor:
            while True:
                record = self._acknowledged.get()
                cursor.execute(query, (record.id,), prepare=True)
                self._release(record.key)

    def _enqueue(self, record: _Record) -> None:
        cell = _cell(record.key)
        with self._changed:
            self._changed.wait_for(lambda: cell not in self._held)
            self._changed.wait_for(lambda: len(self._in_flight) < MAX_IN_FLIGHT_RECORDS)
            if record.key in self._in_flight:
                self._held[cell] = record
            else:
                self._send(record)

    def _release(self, key: str) -> None:
        cell = _cell(key)
        with self._changed:
            self._in_flight.remove(key)
            held = self._held.get(cell)
            if held is not None and held.key == key:
                del self._held[cell]
                self._send(held)
            self._changed.notify()

    def _send(self, record: _Record) -> None:
        self._in_flight.add(record.key)
        self._producer.produce(
            record.topic,
            record.value,
            record.key,
            headers=[*zip(record.header_keys, record.header_values, strict=True)],
            on_delivery=partial(self._delivered, record),
        )

    def _delivered(self, record: _Record, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            raise KafkaException(error)
        self._acknowledged.put(record)


def _cell(key: str) -> int:
    return crc32(key.encode()) % SEND_CONCURRENCY
