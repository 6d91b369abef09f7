"""Messages on their way into queues: which they are, where they go, and what Kafka says to them.

Invariants: a message goes to any partition with the same chance; messages that are sent together go in stretches, so
that batches stay large. A delayed message goes to the markers topic, where the tracker holds it until its time has
come.
"""

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypeAlias
from uuid import uuid4

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # exported, but not in mypy's sense
    AdminClient,
    ConfigResource,
    ResourceType,
)

from windrow.errors import Interrupted, MessageInvalid, QueueTopicMissing
from windrow.kafka.clients import client_config, error_of, topic_partitions
from windrow.kafka.contact import drop
from windrow.message import Bytes, Headers, Message
from windrow.queue.marker import carried_headers, encode
from windrow.queue.marker_pb2 import Carried, Marker, Span
from windrow.queue.settings import QueueSettings
from windrow.queued import limits, milliseconds, pairs, queue_name

ANSWER_WITHIN: Final = 30.0
ANSWERED_SOON: Final = 0.02
_COUNT_AGAIN_AFTER: Final = 300.0
_STRETCH: Final = 500
_LARGEST: Final = 1_000_000
"""message.max.bytes where nothing is set: librdkafka's own default."""
_ROOM: Final = 65_536
"""What a marker may be larger than the message in it."""

Header: TypeAlias = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True, init=False)
class Sending:
    """One of several messages for a queue, with what only it has."""

    payload: bytes | None
    headers: tuple[Header, ...]
    delay: int
    """In milliseconds."""

    def __init__(
        self,
        payload: Bytes,
        headers: Headers = (),
        *,
        delay: timedelta | None = None,
        ttl: timedelta | None = None,
        max_attempts: int | None = None,
    ) -> None:
        checked = Message("queue", payload, None, [*limits(ttl, max_attempts), *pairs(headers)])
        object.__setattr__(self, "payload", checked.value)
        object.__setattr__(self, "headers", checked.headers)
        object.__setattr__(self, "delay", 0 if delay is None else milliseconds("delay", delay))


def spread(count: int, partitions: int, chance: random.Random) -> Iterator[tuple[int, int]]:
    """So many messages over so many partitions, as (partition, how many): evenly, in stretches. Pure but for chance."""
    stretch = max(1, min(_STRETCH, count // (2 * partitions)))
    while count > 0:
        for partition in chance.sample(range(partitions), partitions):
            if count <= 0:
                return
            yield partition, min(stretch, count)
            count -= stretch


def checked(messages: Iterable[Bytes | Sending]) -> list[bytes | Sending]:
    return [each if isinstance(each, bytes | Sending) else Sending(each) for each in messages]


class Sender:
    """Puts messages into a producer of librdkafka; those who send wait in their own ways."""

    def __init__(self, settings: QueueSettings, **own: Any) -> None:
        self._settings = settings
        self._largest = int(settings.base_kafka_config.get("message.max.bytes", _LARGEST))
        self._config = client_config(
            settings,
            {
                "linger.ms": 2,
                "compression.type": settings.base_kafka_config.get("compression.type", "lz4"),
                "queue.buffering.max.messages": 500_000,
                **own,
                "enable.idempotence": True,
                "message.max.bytes": self._largest + _ROOM,
            },
        )
        self.producer = Producer(self._config)
        self._partitions: dict[str, tuple[int, float]] = {}
        self._chance = random.Random()  # noqa: S311 - spreads, hides nothing

    def count(self, topic: str) -> int:
        """How many partitions a topic has, as far as is known."""
        found, until = self._partitions.get(topic, (0, 0.0))
        if time.monotonic() < until:
            return found
        there = topic_partitions(self._settings)  # all: asked for one, Kafka might make it, otherwise than it has to be
        if topic not in there:
            raise QueueTopicMissing(f'topic {topic} is not there: run "windrow queue init"')
        self._partitions[topic] = (there[topic], time.monotonic() + _COUNT_AGAIN_AFTER)
        return there[topic]

    def put(self, queue: str, messages: Sequence[bytes | Sending], on_delivery: Any) -> None:
        """Hand the messages to the producer; all of them are checked first."""
        key = queue_name(queue).encode()
        largest = max(len(each if isinstance(each, bytes) else each.payload or b"") for each in messages)
        if largest > self._largest:
            raise MessageInvalid(
                f"payload: {largest:,} bytes are more than {self._largest:,} (message.max.bytes); give a smaller one,"
                " or raise message.max.bytes in baseKafkaConfig and max.message.bytes of the topics"
            )
        at_once = [each for each in messages if isinstance(each, bytes) or not each.delay]
        topic, position = self._settings.message_topic, 0
        for partition, length in spread(len(at_once), self.count(topic), self._chance):
            for each in at_once[position : position + length]:
                if isinstance(each, bytes):
                    self.produce(topic, each, key, [], partition, on_delivery)
                else:
                    self.produce(topic, each.payload, key, list(each.headers), partition, on_delivery)
            position += length
        for each in messages:
            if isinstance(each, Sending) and each.delay:
                self._put_off(queue, each, on_delivery)

    def _put_off(self, queue: str, sending: Sending, on_delivery: Any) -> None:
        topic = self._settings.marker_topic
        partition = self._chance.randrange(self.count(topic))
        self.produce(topic, delayed(queue, sending, uuid4().bytes), None, [], partition, on_delivery)

    def produce(  # noqa: PLR0913, PLR0917 - as many as a record has parts
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: list[Header],
        partition: int,
        on_delivery: Any,
    ) -> None:
        while True:
            try:
                # Empty headers cost a tenth of all.
                if headers:
                    self.producer.produce(topic, value, key, partition, on_delivery, headers=[*headers])
                else:
                    self.producer.produce(topic, value, key, partition, on_delivery)
            except BufferError:
                self.producer.poll(ANSWERED_SOON)
            except KafkaException as exception:
                raise self.refused(error_of(exception), topic) from exception
            else:
                return

    def poll(self, seconds: float) -> None:
        self.producer.poll(seconds)

    def begin_anew(self) -> None:
        """With another producer: this one may have lost Kafka for good. What it has left it sends, if it can."""
        lost, self.producer = self.producer, Producer(self._config)
        drop(lost)

    def refused(self, error: KafkaError, topic: str) -> Exception:
        """Kafka's refusal in our words."""
        if error.code() in {KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_RECORD}:
            return MessageInvalid(
                f"payload: {topic} takes messages of at most {self._limit(topic)}, headers and all; give a smaller one,"
                " or raise max.message.bytes of the topic"
            )
        return Interrupted(f"Kafka did not take what was sent to {topic}: {error.str()}")

    def _limit(self, topic: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        admin = AdminClient(client_config(self._settings))  # kept: it takes its answers along when it goes
        try:
            found = admin.describe_configs([resource], request_timeout=ANSWER_WITHIN)[resource].result()
        except KafkaException:
            return "max.message.bytes"
        return f"{int(found['max.message.bytes'].value):,} bytes (max.message.bytes)"

    def close(self) -> None:
        self.producer.flush(ANSWER_WITHIN)


def delayed(queue: str, sending: Sending, identity: bytes) -> bytes:
    """The marker that holds a message until its time has come."""
    headers = carried_headers(sending.headers)
    return encode(
        Marker(
            type=Marker.CARRY,
            queue=queue,
            consumer=identity,
            spans=[Span()],
            redeliver_after_ms=sending.delay,
            carried=Carried(
                key=queue.encode(), value=sending.payload, headers=headers, attempt=1, returned=True, unstarted=True
            ),
        )
    )
