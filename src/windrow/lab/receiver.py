"""The consumer whose receipts are judged: reads committed, all partitions from the start, on a connection that nobody
disturbs; but the broker behind it may be away for a while. Of a queue's topic it takes what a relay has published, not
the copies that a tracker makes of it.
"""

import time
from types import TracebackType
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition

from windrow.beside import Beside
from windrow.kafka.clients import Configured, client_config
from windrow.lab.history import Receipt
from windrow.queued import ATTEMPT


class Receiver(Beside):
    """Receives in a thread of its own, while its context lasts."""

    def __init__(self, settings: Configured, topic: str) -> None:
        own = {"group.id": uuid4().hex, "isolation.level": "read_committed", "fetch.wait.max.ms": 100}
        self._consumer = Consumer(client_config(settings, {**own, "enable.auto.commit": False}))
        partitions = self._consumer.list_topics(topic, timeout=30).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        super().__init__("receiver", self._receive)
        self.receipts: list[Receipt] = []
        self.newest = 0.0
        """When the latest transaction began of which a message was received."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        self._consumer.close()

    def _receive(self) -> None:
        while not self.over.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error() or ATTEMPT in dict(message.headers() or []):
                continue
            identity, began, _ = (message.value() or b"").split(b" ", 2)
            receipt = Receipt(identity.decode(), message.partition() or 0, message.offset() or 0, time.monotonic())
            self.receipts.append(receipt)
            self.newest = max(self.newest, float(began))
