"""Other ways to take messages one by one, on the same broker with the same client library; each in its own process.

- *one by one*: what kafka-mq-go does for each message: a start marker that is sent and awaited, the offset committed,
  then the end marker.
- *plain*: a consumer of a group that commits each batch. It has no individual acknowledgements.
- *share group*: Kafka's own queues, with explicit acknowledgements.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, Producer, ShareConsumer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not in mypy's sense
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from windrow.errors import EnvironmentUnfit
from windrow.kafka.clients import client_config, sent
from windrow.queue.settings import QueueSettings

_BATCH: Final = 10_000
_WITHIN: Final = 60.0
_ANSWER_WITHIN: Final = 10.0


class _Clock:
    """When the first message came, and whether all have come in time."""

    def __init__(self, wanted: int) -> None:
        self.left = wanted
        self._wanted, self._began_at, self._deadline = wanted, 0.0, time.monotonic() + _WITHIN

    def came(self, count: int) -> None:
        """So many have come; none where nothing did."""
        if count and not self._began_at:
            self._began_at = time.perf_counter()
        self.left -= count
        if time.monotonic() > self._deadline:
            raise EnvironmentUnfit(f"{self.left:,} of {self._wanted:,} messages did not come within {_WITHIN:.0f} s")

    def rate(self) -> float:
        """Messages/s until now."""
        return (self._wanted - self.left) / (time.perf_counter() - self._began_at)


def one_by_one(settings: QueueSettings, group: str, messages: int) -> float:
    """Messages/s in kafka-mq-go's way."""
    producer = Producer(client_config(settings, {"enable.idempotence": True, "linger.ms": 0}))
    consumer = _consumer(settings, group)
    clock = _Clock(messages)
    while clock.left:
        batch: list[Any] = consumer.consume(_BATCH, 0.5)
        for message in batch[: clock.left]:
            place = TopicPartition(message.topic(), message.partition(), message.offset() + 1)
            sent(producer, _ANSWER_WITHIN, settings.marker_topic, key=message.key(), value=message.value())
            consumer.commit(offsets=[place], asynchronous=False)
            producer.produce(settings.marker_topic, key=message.key(), value=b"end")
            clock.came(1)
    producer.flush(_ANSWER_WITHIN)
    rate = clock.rate()
    consumer.close()
    return rate


def plain(settings: QueueSettings, group: str, messages: int) -> float:
    """Messages/s of a consumer that commits each batch."""
    consumer = _consumer(settings, group)
    clock = _Clock(messages)
    while clock.left:
        batch = consumer.consume(_BATCH, 0.5)
        for message in batch:
            message.value()
        if batch:
            consumer.commit(asynchronous=False)
        clock.came(len(batch))
    rate = clock.rate()
    consumer.close()
    return rate


def share_group(settings: QueueSettings, group: str, messages: int) -> float:
    """Messages/s of a share group's consumer."""
    _start_at_the_beginning(settings, group)
    config = {"group.id": group, "share.acknowledgement.mode": "explicit"}
    consumer = ShareConsumer(client_config(settings, config))
    consumer.subscribe([settings.message_topic])
    clock = _Clock(messages)
    while clock.left:
        count = 0
        for message in consumer.poll(0.5):
            message.value()
            consumer.acknowledge(message)
            count += 1
        clock.came(count)
    consumer.commit_sync(_ANSWER_WITHIN)
    rate = clock.rate()
    consumer.close()
    return rate


RIVALS: Final[Mapping[str, Callable[[QueueSettings, str, int], float]]] = {
    "one by one": one_by_one,
    "plain": plain,
    "share group": share_group,
}


def _consumer(settings: QueueSettings, group: str) -> Consumer:
    own: dict[str, Any] = {
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "fetch.queue.backoff.ms": 10,  # a second, where a partition is ahead of the application
    }
    consumer = Consumer(client_config(settings, own))
    consumer.subscribe([settings.message_topic])
    return consumer


def _start_at_the_beginning(settings: QueueSettings, group: str) -> None:
    """A share group begins at the end, unless the broker is told otherwise before its first member comes."""
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient(client_config(settings))  # kept: it takes its answers along when it goes
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(_ANSWER_WITHIN)
