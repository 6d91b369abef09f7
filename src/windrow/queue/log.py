"""Topics of queues, read from one place to another: all that is there by now, and then the end.

For whoever looks at queues from outside; nothing is committed, and no group is joined.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from windrow.errors import Interrupted, QueueTopicMissing
from windrow.kafka.clients import client_config, committed_offsets, error_of, topic_partitions
from windrow.queue.settings import QueueSettings

_AT_ONCE: Final = 5_000
_ANSWER_WITHIN: Final = 10.0
_ASKED_AT_ONCE: Final = 8
_STALLED_AFTER: Final = 30.0
_BACKED_OFF: Final = 10
"""Milliseconds after which librdkafka fetches again where it was ahead of us; by itself it waits for a second."""

Header = tuple[str, bytes | None]
Progress = Callable[[int, int], None]
"""Told how many of how many offsets were read."""


class Entry:
    """A record of a topic."""

    __slots__ = ("_record",)

    def __init__(self, record: Any) -> None:
        self._record = record

    @property
    def partition(self) -> int:
        return int(self._record.partition())

    @property
    def offset(self) -> int:
        return int(self._record.offset())

    @property
    def timestamp(self) -> int:
        """In milliseconds, by the broker's clock."""
        return int(self._record.timestamp()[1])

    @property
    def key(self) -> bytes | None:
        key: bytes | None = self._record.key()
        return key

    @property
    def value(self) -> bytes | None:
        value: bytes | None = self._record.value()
        return value

    @property
    def headers(self) -> list[Header]:
        return self._record.headers() or []


def read_all(
    settings: QueueSettings, topic: str, starts: Mapping[int, int] | None = None, progress: Progress | None = None
) -> Iterator[Entry]:
    """The committed records of a topic: in each partition from a given offset, or its first, to where it ends now."""
    own = {
        "group.id": uuid4().hex,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "fetch.queue.backoff.ms": _BACKED_OFF,
        "fetch.wait.max.ms": 50,
    }
    with closing(Consumer(client_config(settings, own))) as consumer:
        first = starts or {}
        there = _extents(consumer, topic)
        ranges = {each: range(max(run.start, first.get(each, 0)), run.stop) for each, run in there.items()}
        yield from _read(consumer, topic, {each: run for each, run in ranges.items() if run}, progress)


def extents(settings: QueueSettings, topic: str) -> dict[int, range]:
    """The offsets that each partition of a topic has now."""
    with closing(Consumer(client_config(settings, {"group.id": uuid4().hex}))) as consumer:
        return _extents(consumer, topic)


def _read(consumer: Consumer, topic: str, ranges: dict[int, range], progress: Progress | None) -> Iterator[Entry]:
    """Partitions whose last records belong to transactions under way end before those: nobody receives them yet."""
    total, done = sum(map(len, ranges.values())), 0
    consumer.assign([TopicPartition(topic, each, run.start) for each, run in ranges.items()])
    unfinished, deadline = set(ranges), monotonic() + _STALLED_AFTER
    while unfinished:
        records: list[Any] = consumer.consume(_AT_ONCE, 0.2)
        if records:
            deadline = monotonic() + _STALLED_AFTER
        elif monotonic() > deadline:
            raise Interrupted(f"topic {topic} could not be read to its end within {_STALLED_AFTER:.0f} s")
        for record in records:
            partition, offset = record.partition(), record.offset()
            if _ends(record, topic) or offset + 1 >= ranges[partition].stop:
                unfinished.discard(partition)
            if not record.error() and offset in ranges[partition]:
                done += 1
                yield Entry(record)
        if progress:
            progress(done, total)


def _ends(record: Any, topic: str) -> bool:
    """Whether a partition ends here; raises what a partition cannot be read on for."""
    error = record.error()
    if error and error.code() != KafkaError._PARTITION_EOF and not error.retriable():  # noqa: SLF001 - librdkafka's own
        raise Interrupted(f"topic {topic} could not be read: {error.str()}")
    return bool(error) and error.code() == KafkaError._PARTITION_EOF  # noqa: SLF001 - as above


def places_of(settings: QueueSettings, groups: Collection[str], topic: str) -> dict[str, dict[int, int]]:
    """Where groups stand in a topic, as far as they have committed it; partitions without an entry are not begun.

    Each is asked for by a consumer of its own, some at a time. One admin client would do for all, but librdkafka 2.16
    crashes when a coordinator tells it that the group has moved.
    """
    wanted = [TopicPartition(topic, each) for each in range(topic_partitions(settings).get(topic, 0))]

    def ask(group: str) -> dict[int, int]:
        with closing(Consumer(client_config(settings, {"group.id": group, "enable.auto.commit": False}))) as reader:
            return {each.partition: each.offset for each in committed_offsets(reader, wanted)}

    with ThreadPoolExecutor(_ASKED_AT_ONCE) as threads:
        return dict(zip(groups, threads.map(ask, groups) if wanted else (), strict=False))


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    try:
        found = consumer.list_topics(topic, timeout=_ANSWER_WITHIN).topics[topic]
    except KafkaException as exception:
        raise Interrupted(f"Kafka did not tell of topic {topic}: {error_of(exception).str()}") from exception
    if found.error:
        raise QueueTopicMissing(f'topic {topic} is not there: run "windrow queue init"')
    return sorted(found.partitions)


def _extents(consumer: Consumer, topic: str) -> dict[int, range]:
    places = [TopicPartition(topic, each) for each in _partitions(consumer, topic)]
    try:
        return {each.partition: range(*consumer.get_watermark_offsets(each, timeout=_ANSWER_WITHIN)) for each in places}
    except KafkaException as exception:
        raise Interrupted(f"Kafka did not tell of topic {topic}: {error_of(exception).str()}") from exception
