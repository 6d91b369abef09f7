"""Which queues are paused, as the control topic says: its last word on each.

A paused queue is named by a record with its name as the key; a tombstone resumes it. The topic is compacted; its first
partition is for this. Without it no queue is paused.
"""

import time
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition

from windrow.errors import Interrupted
from windrow.kafka.clients import client_config, error_of, sent
from windrow.kafka.contact import Contact, Flow, part_from
from windrow.queue.settings import QueueSettings
from windrow.queued import queue_name

_PAUSED: Final = b"paused"
_PARTITION: Final = 0
_ANSWER_WITHIN: Final = 10.0
_AT_ONCE: Final = 500


def pause(settings: QueueSettings, queue: str) -> None:
    """Have all consumers of the queue stop, and hand back what they have not begun with."""
    _say(settings, queue, _PAUSED)


def resume(settings: QueueSettings, queue: str) -> None:
    """Have its consumers go on."""
    _say(settings, queue, None)


def paused(settings: QueueSettings) -> set[str]:
    """All queues that are paused."""
    control = Control(settings)
    try:
        return control.read_to_end()
    finally:
        control.close()


def _say(settings: QueueSettings, queue: str, value: bytes | None) -> None:
    producer = Producer(client_config(settings, {"enable.idempotence": True}))
    try:
        key = queue_name(queue).encode()
        sent(producer, _ANSWER_WITHIN, settings.control_topic, key=key, value=value, partition=_PARTITION)
    except KafkaException as exception:
        raise Interrupted(f"Kafka did not take the word on queue {queue}: {error_of(exception).str()}") from exception


class Control:
    """Follows the control topic."""

    def __init__(self, settings: QueueSettings) -> None:
        self._topic = settings.control_topic
        own = {"group.id": f"{self._topic}.readers", "enable.auto.commit": False, "fetch.wait.max.ms": 500}
        self._config = client_config(settings, own)
        self._paused: set[str] = set()
        self._follow(OFFSET_BEGINNING)

    def _follow(self, offset: int) -> None:
        self._next = offset
        self._consumer = Consumer(self._config)
        self._contact = Contact(self._consumer, self._topic)
        self._flow = Flow(self._config, lambda: [TopicPartition(self._topic, _PARTITION, self._next)])
        self._consumer.assign([TopicPartition(self._topic, _PARTITION, offset)])

    def is_paused(self, queue: str) -> bool:
        """Whether the queue is paused, as far as the topic has been read; does not wait."""
        self._take(0)
        if self._contact.lost() or self._flow.stuck():
            part_from(self._consumer, within=0.0)
            self._follow(self._next)
        return queue in self._paused

    def read_to_end(self) -> set[str]:
        """The paused queues, once all is read that was in the topic."""
        end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, _PARTITION), timeout=_ANSWER_WITHIN)[1]
        deadline = time.monotonic() + _ANSWER_WITHIN
        while end and self._position() < end and time.monotonic() < deadline:
            self._take(0.1)
        return set(self._paused)

    def _position(self) -> int:
        return int(self._consumer.position([TopicPartition(self._topic, _PARTITION)])[0].offset)

    def _take(self, seconds: float) -> None:
        for record in self._consumer.consume(_AT_ONCE, seconds):
            if record.error() or (offset := record.offset()) is None:
                continue
            self._contact.heard()
            self._flow.heard()
            self._next = offset + 1
            if not (key := record.key()):
                continue
            name = key.decode(errors="replace")
            if record.value() == _PAUSED:
                self._paused.add(name)
            else:
                self._paused.discard(name)

    def close(self) -> None:
        part_from(self._consumer)
