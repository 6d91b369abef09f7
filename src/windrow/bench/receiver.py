"""The receiving consumer: reads committed, notes what came and when. Runs in a process of its own.

A backlog is taken in large batches, whose records share a moment; live records one by one.
"""

import gc
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from windrow.bench.check import Numbers
from windrow.bench.load import number_in
from windrow.kafka.clients import client_config
from windrow.settings import Settings

_BATCH: Final = 1_000
_BATCH_WITHIN: Final = 0.02
_QUIET: Final = 60.0
_AFTERWARDS: Final = 1.0
_CONFIG: Final = {
    "group.id": "windrow-bench",
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "queued.max.messages.kbytes": 65_536,
    "fetch.queue.backoff.ms": 2,  # by default it does not fetch for a second when it has fetched so much
}


@dataclass(frozen=True, slots=True)
class Receipts:
    """Numbers in the order of receipt, and when each came (nanoseconds of the machine's monotonic clock)."""

    numbers: Numbers
    times: Numbers

    def after(self, started: int, count: int) -> float:
        """Seconds from `started` until the first `count` records were there."""
        return float(self.times[min(count, len(self.times)) - 1] - started) / 1e9


def receive(settings: Settings, topic: str, expected: int, *, live: bool, over: Path | None = None) -> Receipts:
    """Receive until so many came, and a little longer for what must not come; or until nothing comes for a minute.

    Or until there is a file `over`, whatever comes.
    """
    gc.disable()  # no message is part of a cycle: to look for cycles among them is a quarter of this process's time
    consumer = Consumer(client_config(settings, _CONFIG))
    partitions = consumer.list_topics(topic, timeout=_QUIET).topics[topic].partitions
    consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
    numbers, times = bytearray(), []
    received, ends_at = 0, time.monotonic() + _QUIET
    while time.monotonic() < ends_at and not (over and over.exists()):
        batch = _one(consumer) if live else consumer.consume(_BATCH, _BATCH_WITHIN)
        if not batch:
            continue
        now = time.monotonic_ns()
        numbers += b"".join([number_in(_value(message)) for message in batch])
        times.append((now, len(batch)))
        received += len(batch)
        ends_at = now / 1e9 + (_QUIET if received < expected else _AFTERWARDS)
    consumer.close()
    gc.enable()
    moments, counts = np.array(times, dtype=np.int64).reshape(-1, 2).T
    return Receipts(np.frombuffer(numbers, dtype=">i8").astype(np.int64), np.repeat(moments, counts))


def _one(consumer: Consumer) -> list[Message]:
    message = consumer.poll(_BATCH_WITHIN)
    return [] if message is None else [message]


def _value(message: Message) -> bytes:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    value: bytes = message.value() or b""
    return value
