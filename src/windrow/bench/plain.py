"""Kafka without a relay: the ceiling of what could be published, and the round trip T of a small transaction.

The same records, the same producer settings, pages of the same size, each a transaction with an offset in it; but from
memory. Runs in processes of its own.
"""

import time
from contextlib import closing
from typing import Final

from confluent_kafka import Producer, TopicPartition

from windrow.bench.load import HEADERS, KEYS, key_of, value_of
from windrow.kafka.clients import client_config, position_reader
from windrow.publish.sending import DEFAULTS
from windrow.publish.transaction import transactor
from windrow.publish.transactor import persist
from windrow.record import Record
from windrow.settings import Settings

_WITHIN: Final = 30.0
_Headers = list[tuple[str, str | bytes | None]]
_Record = tuple[bytes, bytes, _Headers]


def produce(settings: Settings, topic: str, shard: int, numbers: range) -> int:
    """Produce the records of these numbers in pages; return when the first transaction began."""
    records: list[_Record] = [
        (
            value_of(number),
            key_of(number, KEYS),
            [*HEADERS, ("x-sequence", b"%d" % number), ("x-source", b"bench")],
        )
        for number in numbers
    ]
    page = settings.limits.page_records
    with closing(_Publisher(settings, topic, shard)) as publisher:
        started = time.monotonic_ns()
        for first in range(0, len(records), page):
            publisher.publish(records[first : first + page])
    return started


def round_trips(settings: Settings, topic: str, count: int) -> list[float]:
    """Seconds that each of so many transactions of one record and one offset took."""
    record: _Record = (value_of(0), b"0", [*HEADERS])
    seconds = []
    with closing(_Publisher(settings, topic, shard=0)) as publisher:
        for _ in range(count):
            started = time.monotonic()
            publisher.publish([record])
            seconds.append(time.monotonic() - started)
    return seconds


def relay_transactions(settings: Settings, topic: str, count: int) -> None:
    """Make so many transactions of one record and one offset, as a relay makes them."""
    record = Record(0, topic, b"0", value_of(0), [], [], None, None)
    position = TopicPartition(settings.position_topic, 0, 0)
    with closing(position_reader(settings)) as reader, closing(transactor(settings, "warm")) as by:
        membership = reader.consumer_group_metadata()
        by.init()

        def attempt() -> None:
            with by.transaction():
                by.send(b"bench", [record])
                by.finish([position], membership)

        for _ in range(count):
            persist(attempt)


class _Publisher:
    """A transactional producer as plain as can be."""

    def __init__(self, settings: Settings, topic: str, shard: int) -> None:
        own = {"transactional.id": f"{settings.name}.plain.{shard}", "delivery.report.only.error": True}
        self._producer = Producer(client_config(settings, {**DEFAULTS, **settings.producer_kafka_config, **own}))
        self._producer.init_transactions(_WITHIN)
        self._reader = position_reader(settings)
        self._topic = topic
        self._offset = TopicPartition(settings.position_topic, shard, 0)

    def publish(self, records: list[_Record]) -> None:
        self._producer.begin_transaction()
        for value, key, headers in records:
            self._send(value, key, headers)
        self._producer.flush()
        self._offset.offset += len(records)
        self._producer.send_offsets_to_transaction([self._offset], self._reader.consumer_group_metadata(), _WITHIN)
        self._producer.commit_transaction(_WITHIN)

    def close(self) -> None:
        self._reader.close()

    def _send(self, value: bytes, key: bytes, headers: _Headers) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key, headers=headers)
            except BufferError:
                self._producer.poll(0.01)
            else:
                return
