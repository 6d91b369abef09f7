"""The consumer whose receipts are judged: reads committed, all partitions from the start, on a connection that nobody
disturbs; but the broker behind it may be away for a while. Of a queue's topic it takes what a relay has published, not
the copies that a tracker makes of it.
"""

import time
from types import TracebackType
from typing import Final
from uuid import uuid4

from confluent_kafka import Consumer, Message, TopicPartition

from windrow.beside import Beside
from windrow.kafka.clients import Configured, client_config, topic_partitions
from windrow.kafka.contact import Contact, Flow, part_from
from windrow.lab.history import Receipt
from windrow.queued import ATTEMPT

_KNOWN_WITHIN: Final = 30.0
_ASK_AGAIN_AFTER: Final = 0.1
_ASK_AFTER: Final = 0.5
_LOST_AFTER: Final = 2.0
"""Seconds; soon, since others are judged by when something is received."""


class Receiver(Beside):
    """Receives in a thread of its own, while its context lasts."""

    def __init__(self, settings: Configured, topic: str) -> None:
        own = {"group.id": uuid4().hex, "isolation.level": "read_committed", "fetch.wait.max.ms": 100}
        self._config = client_config(settings, {**own, "enable.auto.commit": False})
        self._topic = topic
        self._next = dict.fromkeys(range(_partitions(settings, topic)), 0)
        self._read_on()
        super().__init__("receiver", self._receive)
        self.receipts: list[Receipt] = []
        self.newest = 0.0
        """When the latest transaction began of which a message was received."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        part_from(self._consumer)

    def _read_on(self) -> None:
        self._consumer = Consumer(self._config)
        self._contact = Contact(self._consumer, self._topic, ask_after=_ASK_AFTER, lost_after=_LOST_AFTER)
        self._flow = Flow(self._config, self._standing)
        self._consumer.assign(self._standing())

    def _standing(self) -> list[TopicPartition]:
        return [TopicPartition(self._topic, *each) for each in self._next.items()]

    def _receive(self) -> None:
        while not self.over.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and not message.error():
                self._contact.heard()
                self._flow.heard()
                self._take(message)
            elif self._contact.lost() or self._flow.stuck():
                part_from(self._consumer, within=0.0)
                self._read_on()

    def _take(self, message: Message) -> None:
        partition, offset = message.partition() or 0, message.offset() or 0
        self._next[partition] = offset + 1
        if ATTEMPT in dict(message.headers() or []):
            return
        identity, began, _ = (message.value() or b"").split(b" ", 2)
        self.receipts.append(Receipt(identity.decode(), partition, offset, time.monotonic()))
        self.newest = max(self.newest, float(began))


def _partitions(settings: Configured, topic: str) -> int:
    """Of a topic that was just made, and that not every broker may know of yet."""
    deadline = time.monotonic() + _KNOWN_WITHIN
    while topic not in (found := topic_partitions(settings)) and time.monotonic() < deadline:
        time.sleep(_ASK_AGAIN_AFTER)
    return found[topic]
