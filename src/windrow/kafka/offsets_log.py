"""What a group has committed, as the log says in which its coordinator keeps that, not as the coordinator remembers it.

The two are the same, unless a broker leads the log's partition, resigns and leads it again before it has read it: that
of Kafka 4.2.1 then tells what it had read by then, until it is restarted. The records are of the form that Kafka's own
schemas `OffsetCommitKey` and `OffsetCommitValue` give.
"""

import struct
import time
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from windrow.errors import Interrupted
from windrow.kafka.clients import error_of, position_reader
from windrow.kafka.contact import parting
from windrow.record import Committed
from windrow.settings import Settings

TOPIC: Final = "__consumer_offsets"
_AT_ONCE: Final = 5_000
_ANSWER_WITHIN: Final = 10.0
_READ_WITHIN: Final = 60.0
_OF_OFFSETS: Final = frozenset({0, 1})
"""Versions of keys; those of all else that the log holds are higher."""
_WITH_LEADER_EPOCH: Final = 3
_COMPACT: Final = 4
"""Versions of values."""


class Place(NamedTuple):
    """Of what an offset was committed."""

    group: str
    topic: str
    partition: int


def log_partition(group: str, partitions: int) -> int:
    """Which of the log's partitions a group's offsets are in, as Java's hash of its name says."""
    number = 0
    for (unit,) in struct.iter_unpack(">H", group.encode("utf-16-be")):
        number = (31 * number + unit) & 0xFFFFFFFF
    return min(number, 2**32 - number) % 2**31 % partitions  # a number of 32 bits with a sign, without it


def place_of(key: bytes) -> Place | None:
    """Of what a record with this key tells; None where that is not an offset."""
    parts = _Parts(key)
    if parts.number("h") not in _OF_OFFSETS:
        return None
    return Place(parts.text(parts.number("h")), parts.text(parts.number("h")), parts.number("i"))


def offset_in(value: bytes) -> tuple[int, str]:
    """The offset, and what was kept beside it, without the zero that librdkafka ends texts with."""
    parts = _Parts(value)
    version, offset = parts.number("h"), parts.number("q")
    if version > _COMPACT:
        raise Interrupted(f"Kafka's log of offsets has a form that this windrow does not know ({version})")
    if version >= _WITH_LEADER_EPOCH:
        parts.number("i")
    beside = parts.text(parts.varint() - 1 if version >= _COMPACT else parts.number("h"))
    return offset, beside.removesuffix("\0")


class _Parts:
    """The parts of a record, one after the other."""

    def __init__(self, record: bytes) -> None:
        self._record, self._at = record, 0

    def number(self, kind: str) -> int:
        (number,) = struct.unpack_from(f">{kind}", self._record, self._at)
        self._at += struct.calcsize(f">{kind}")
        return int(number)

    def varint(self) -> int:
        number = shift = 0
        while (part := self.number("B")) & 0x80:
            number |= (part & 0x7F) << shift
            shift += 7
        return number | part << shift

    def text(self, length: int) -> str:
        self._at += length
        return self._record[self._at - length : self._at].decode()


def logged_position(settings: Settings, shard: int) -> Committed | None:
    """What a shard has committed, with what was committed until now; None where that is nothing. The shard itself has
    no transaction open. Raises `Interrupted` where the log cannot be read.
    """
    own = {"isolation.level": "read_committed", "enable.partition.eof": True}
    wanted = Place(settings.position_group_id, settings.position_topic, shard)
    try:
        with parting(position_reader(settings, **own)) as consumer:
            partitions = len(consumer.list_topics(TOPIC, timeout=_ANSWER_WITHIN).topics[TOPIC].partitions)
            log = TopicPartition(TOPIC, log_partition(wanted.group, partitions or 1), OFFSET_BEGINNING)
            end = _end(settings, log)
            consumer.assign([log])
            return _last(consumer, wanted, end)
    except KafkaException as exception:
        raise Interrupted(f"Kafka's log of offsets could not be read: {error_of(exception).str()}") from exception


def _end(settings: Settings, log: TopicPartition) -> int:
    """Where the log ends, what is not committed yet included: before our transactions, which are over, there may be
    others that are not.
    """
    with parting(position_reader(settings, **{"isolation.level": "read_uncommitted"})) as consumer:
        _, end = consumer.get_watermark_offsets(log, timeout=_ANSWER_WITHIN)
    return int(end)


def _last(consumer: Consumer, wanted: Place, end: int) -> Committed | None:
    last: Committed | None = None
    deadline = time.monotonic() + _READ_WITHIN
    while time.monotonic() < deadline:
        records: list[Any] = consumer.consume(_AT_ONCE, 0.2)
        for record in records:
            if error := record.error():
                if error.code() == KafkaError._PARTITION_EOF and record.offset() >= end:  # noqa: SLF001
                    return last
                if error.code() != KafkaError._PARTITION_EOF and not error.retriable():  # noqa: SLF001
                    raise KafkaException(error)
            elif place_of(record.key()) == wanted:
                last = Committed.read(*offset_in(record.value())) if record.value() else None
    raise Interrupted(f"Kafka's log of offsets could not be read to its end within {_READ_WITHIN:.0f} s")
