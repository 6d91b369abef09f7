"""Payloads of due messages, read from where they are: the queue topic, or the CARRY that holds them.

They are read in the order of their offsets, so that a lease costs one seek. What is not where it was is gone: deleted
by the topic's retention, which no try brings back.
"""

import time
from collections.abc import Generator, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from windrow.errors import Interrupted
from windrow.kafka.clients import client_config, error_of
from windrow.kafka.contact import part_from
from windrow.queue.copies import Payload
from windrow.queue.marker import MalformedMarker, decode
from windrow.queue.marker_pb2 import Carried
from windrow.queue.redelivery import NEVER, Due
from windrow.queue.settings import QueueSettings

_WITHIN: Final = 5.0
_SEEK_BEYOND: Final = 1000
"""Messages that are rather read than sought over."""


class Payloads:
    """Reads payloads for the tracker of one markers partition."""

    def __init__(self, settings: QueueSettings, partition: int) -> None:
        self._settings, self._partition = settings, partition
        self._consumer = Consumer(
            client_config(
                settings,
                {
                    "group.id": settings.tracker_group,
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest",
                    "enable.partition.eof": True,
                    "allow.auto.create.topics": False,
                    "fetch.wait.max.ms": 10,  # a request that waits for more of one partition holds up the next
                },
            )
        )
        for topic in (settings.message_topic, settings.marker_topic):
            self._look_up(topic)
        self._next: Message | None = None
        self._at: tuple[str, int, int] | None = None
        self._ends: dict[tuple[str, int], int] = {}

    def read(self, messages: Sequence[Due]) -> Generator[tuple[Due, Payload | None]]:
        """The messages in the order that suits, each with its payload; None where that is gone."""
        if not messages:
            return
        try:
            for due in sorted(messages, key=self._place):
                message = self._seek(*self._place(due))
                yield due, None if message is None else _payload(message, due)
        except KafkaException as exception:
            raise Interrupted(f"messages could not be read: {error_of(exception).str()}") from exception
        finally:
            self._at, self._next = None, None
            self._ends.clear()
            self._consumer.unassign()

    def _look_up(self, topic: str) -> None:
        """Know the topic's brokers before the first message is due."""
        try:
            self._consumer.list_topics(topic, timeout=_WITHIN)
        except KafkaException as exception:
            raise Interrupted(f"topic {topic} could not be looked up: {error_of(exception).str()}") from exception

    def close(self) -> None:
        part_from(self._consumer)

    def _place(self, due: Due) -> tuple[str, int, int]:
        if due.carried is None:
            return self._settings.message_topic, due.partition, due.offset
        return self._settings.marker_topic, self._partition, due.carried

    def _seek(self, topic: str, partition: int, offset: int) -> Message | None:
        """The record at that offset, which is not before the last one; None where it is gone."""
        if offset >= self._ends.get((topic, partition), NEVER):
            return None
        at, self._at = self._at, (topic, partition, offset)
        if at is None or at[:2] != (topic, partition) or offset - at[2] > _SEEK_BEYOND:
            self._consumer.assign([TopicPartition(topic, partition, offset)])
            self._next = None
        deadline = time.monotonic() + _WITHIN
        while time.monotonic() < deadline:
            message, self._next = self._next or self._consumer.poll(0.1), None
            if message is None:
                continue
            found, error = message.offset(), message.error()
            if error is not None and error.code() == KafkaError._UNKNOWN_PARTITION:  # noqa: SLF001 - librdkafka's own
                break
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - as above
                raise KafkaException(error)
            if found is not None and found > offset:
                self._next = message
                return None
            if error is None and found == offset:
                return message
        self._ends[topic, partition] = self._end(topic, partition)
        if offset < self._ends[topic, partition]:
            raise Interrupted(f"topic {topic}, partition {partition}: offset {offset} could not be read in time")
        return None

    def _end(self, topic: str, partition: int) -> int:
        """The offset after a partition's last record, once it was waited for; 0 where there is no such partition."""
        if partition not in self._consumer.list_topics(topic, timeout=_WITHIN).topics[topic].partitions:
            return 0
        return self._consumer.get_watermark_offsets(TopicPartition(topic, partition), _WITHIN)[1]


def _payload(message: Message, due: Due) -> Payload | None:
    timestamp = message.timestamp()[1]
    if due.carried is None:
        headers = [(each[0], _bytes(each[1])) for each in message.headers() or ()]
        return Payload(_bytes(message.key()), _bytes(message.value()), headers, timestamp)
    try:
        carried: Carried = decode(_bytes(message.value())).carried
    except MalformedMarker:
        return None
    return Payload(
        carried.key or None,
        carried.value if carried.HasField("value") else None,
        [(each.name, each.value if each.HasField("value") else None) for each in carried.headers],
        carried.timestamp or timestamp,
    )


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content
