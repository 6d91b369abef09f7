"""Queues of a test's own: topics that no other test touches, a tracker on them, and markers written by hand."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from pyspark.sql import SparkSession

from fix_pipeline import received, wait_for
from windrow import embedded
from windrow.kafka.clients import client_config, committed_offsets, sent
from windrow.queue.marker import MalformedMarker, decode, encode, marker_partition
from windrow.queue.marker_pb2 import Marker, Span
from windrow.queue.runs import pack, unpack
from windrow.queue.settings import QueueSettings
from windrow.queue.topics import create_topics
from windrow.queue.tracker import Tracker

QUEUE = "jobs"
_WITHIN = 30.0


@dataclass
class Queues:
    """The settings of queues, and what is in their topics."""

    settings: QueueSettings
    spark: SparkSession | None
    marker_partitions: int

    def __post_init__(self) -> None:
        self.consumer = uuid4().bytes
        self._leases = count(1)
        self._producer = Producer(
            client_config(self.settings, {"enable.idempotence": True, "linger.ms": 2, "message.max.bytes": 10_000_000})
        )

    def send(self, *values: bytes | str, partition: int = 0, queue: str | None = QUEUE, **more: Any) -> list[int]:
        """Send messages to a queue; the offsets that they got."""
        offsets: dict[int, int] = {}

        def remember(place: int) -> Callable[[Any, Message], None]:
            def noted(error: Any, message: Message) -> None:
                assert error is None, error
                offsets[place] = message.offset() or 0

            return noted

        for place, value in enumerate(values):
            self._producer.produce(
                self.settings.message_topic, value, queue, partition, on_delivery=remember(place), **more
            )
            self._producer.poll(0)
        assert self._producer.flush(_WITHIN) == 0
        return [offsets[place] for place in range(len(values))]

    def lease(self) -> int:
        return next(self._leases)

    def marker(
        self, kind: str, lease: int, offsets: Sequence[int], partition: int = 0, after: float = 0, **more: Any
    ) -> Marker:
        offset, runs = pack(offsets)
        return Marker(
            type=Marker.Type.Value(kind),
            queue=more.pop("queue", QUEUE),
            consumer=more.pop("consumer", self.consumer),
            spans=[Span(lease=lease, partition=partition, offset=offset, runs=runs)],
            redeliver_after_ms=round(after * 1000),
            **more,
        )

    def mark(self, *arguments: Any, **more: Any) -> Message:
        """Write a marker and wait for Kafka's answer."""
        marker = self.marker(*arguments, **more)
        return self.write(encode(marker), self.partition_of(marker))

    def write(self, content: bytes, partition: int) -> Message:
        """Write any bytes into the markers topic."""
        return sent(self._producer, _WITHIN, self.settings.marker_topic, value=content, partition=partition)

    def partition_of(self, marker: Marker) -> int:
        return marker_partition(marker.queue, marker.spans[0].partition, self.marker_partitions)

    @contextmanager
    def tracker(self) -> Iterator[Tracker]:
        """A tracker, at work; what stopped it before its time is raised."""
        before = len(self.markers(Marker.TICK))
        with Tracker(self.settings, self.spark) as tracker:

            def watches() -> bool:
                return tracker.wait(0) or len(self.markers(Marker.TICK)) >= before + self.marker_partitions

            wait_for(watches, "the tracker to watch")
            yield tracker
        tracker.wait()

    def messages(self, topic: str | None = None) -> list[Message]:
        return received(self.settings, topic or self.settings.message_topic)  # type: ignore[arg-type]

    def dead_letters(self) -> list[Message]:
        return self.messages(self.settings.dead_letter_topic)

    def copies(self) -> list[Message]:
        """Messages that a tracker has written."""
        return [each for each in self.messages() if "x-sent-ms" in header_names(each)]

    def markers(self, *kinds: int) -> list[Marker]:
        found = []
        for each in self.messages(self.settings.marker_topic):
            with suppress(MalformedMarker):
                found.append(decode(each.value()))  # type: ignore[arg-type]
        return [each for each in found if not kinds or each.type in kinds]

    def wait_for_copies(self, number: int, seconds: float = 60) -> list[Message]:
        wait_for(lambda: len(self.copies()) >= number, f"{number} copies", seconds)
        return self.copies()

    def committed(self) -> dict[int, int]:
        """The tracker's offsets by markers partition."""
        reader = Consumer(client_config(self.settings, {"group.id": self.settings.tracker_group}))
        wanted = [TopicPartition(self.settings.marker_topic, each) for each in range(self.marker_partitions)]
        offsets = {each.partition: each.offset for each in committed_offsets(reader, wanted)}
        reader.close()
        return offsets


def header_names(message: Message) -> set[str]:
    return {name for name, _ in message.headers() or ()}


def header(message: Message, name: str) -> str | None:
    value = dict(message.headers() or ()).get(name)
    return value.decode() if isinstance(value, bytes) else value


def values(messages: Iterable[Message]) -> list[bytes | str | None]:
    return sorted((each.value() for each in messages), key=str)


def queues_on(
    kafka: dict[str, str],
    spark: SparkSession | None = None,
    partitions: int = 2,
    marker_partitions: int = 1,
    **settings: Any,
) -> Queues:
    """Queues on any broker."""
    name = f"test.{uuid4().hex[:12]}"
    loaded = QueueSettings.load(environment={}, message_topic=name, base_kafka_config=kafka, **settings)
    create_topics(loaded, partitions, marker_partitions)
    return Queues(loaded, spark, marker_partitions)


@pytest.fixture
def make_queues(kafka: embedded.Kafka, spark: SparkSession) -> Callable[..., Queues]:
    """Make queues on the shared broker, with settings of their own."""

    def make(**settings: Any) -> Queues:
        return queues_on(kafka.client_config, spark, **settings)

    return make


@pytest.fixture
def queues(make_queues: Callable[..., Queues]) -> Queues:
    return make_queues()


@pytest.fixture
def make_queue_settings(kafka: embedded.Kafka) -> Callable[..., QueueSettings]:
    """Make topics of queues on the shared broker, for those who need no tracker."""

    def make(partitions: int = 2, marker_partitions: int = 2, **settings: Any) -> QueueSettings:
        return queue_settings(kafka.client_config, partitions, marker_partitions, **settings)

    return make


def queue_settings(
    kafka: dict[str, str], partitions: int = 2, marker_partitions: int = 2, **settings: Any
) -> QueueSettings:
    config = {**kafka, "session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}
    name = f"test.{uuid4().hex[:12]}"
    loaded = QueueSettings.load(environment={}, message_topic=name, base_kafka_config=config, **settings)
    create_topics(loaded, partitions, marker_partitions)
    return loaded


def markers(settings: QueueSettings, *kinds: int) -> list[Marker]:
    """What is in the markers topic."""
    read = (decode(each.value()) for each in received(settings, settings.marker_topic))  # type: ignore[arg-type]
    return [each for each in read if not kinds or each.type in kinds]


def offsets_of(found: Iterable[Marker]) -> list[tuple[int, int]]:
    """Partitions and offsets of the messages that the markers are about, each as often as it occurs."""
    return [
        (span.partition, offset) for each in found for span in each.spans for offset in unpack(span.offset, span.runs)
    ]
