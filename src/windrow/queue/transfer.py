"""What the tracker of one markers partition writes: records and its own offset in one transaction; and ticks.

Invariant: a copy is in the queue topic, for consumers that read committed, if and only if the end of its message is in
the markers topic. The transactional id is the partition's: opening fences whoever was there before, and only then is
the offset read to start at. Every transaction shows the leader's membership, and Kafka refuses one that is over.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from windrow.errors import Interrupted
from windrow.kafka.clients import client_config, committed_offsets, error_of
from windrow.kafka.contact import part_from
from windrow.publish.sending import DEFAULTS, refusal
from windrow.publish.transactor import SETTLE_WITHIN, Transactor, persist
from windrow.queue.settings import QueueSettings

_TICK_WITHIN_MS: Final = 10_000


class Outgoing(NamedTuple):
    """A record to be written."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, str | bytes | None]] | None = None
    partition: int = -1


class Transfer:
    """Writes for the tracker of one markers partition."""

    def __init__(self, settings: QueueSettings, partition: int, membership: bytes) -> None:
        self._own = TopicPartition(settings.marker_topic, partition)
        self._topics = (settings.message_topic, settings.marker_topic, settings.dead_letter_topic)
        self._membership = membership
        self._transactor = Transactor(
            client_config(
                settings,
                {
                    **DEFAULTS,
                    "linger.ms": 5,
                    "partitioner": "random",
                    **settings.base_kafka_config,
                    "transactional.id": f"windrow-tracker-{settings.message_topic}-{partition}",
                },
            )
        )
        self._reader = Consumer(client_config(settings, {"group.id": settings.tracker_group}))
        self.committed: int | None = None
        """The offset that is committed; None where there is none yet."""

    def open(self) -> None:
        """End and fence the predecessor, and read how far it came."""
        self._transactor.init()
        with self._transactor.translated():
            for topic in self._topics:  # whose brokers are then known before the first message is due
                self._transactor.producer.list_topics(topic, timeout=SETTLE_WITHIN)
        known = committed_offsets(self._reader, [self._own])
        self.committed = known[0].offset if known else None

    def commit(self, records: Sequence[Outgoing], offset: int) -> None:
        """Write the records and commit the offset, or raise and do neither."""
        persist(partial(self._try_commit, records, offset))

    def _try_commit(self, records: Sequence[Outgoing], offset: int) -> None:
        with self._transactor.transaction():
            for each in records:
                _send(self._transactor.producer, each)
            reached = TopicPartition(self._own.topic, self._own.partition, offset)
            self._transactor.finish([reached], self._membership)
        self.committed = offset

    def close(self) -> None:
        """Leave no transaction open where Kafka can still be told; otherwise the successor ends it."""
        self._transactor.close()
        part_from(self._reader)


def _send(producer: Producer, record: Outgoing) -> None:
    while True:
        try:
            producer.produce(record.topic, record.value, record.key, record.partition, headers=record.headers or [])
        except BufferError:
            producer.poll(0.01)
        except KafkaException as exception:
            if refused := refusal(error_of(exception), record.topic):
                raise refused from exception
            raise
        else:
            return


class Ticker:
    """Asks the broker for the time: a tick comes back with its timestamp, behind all that was written before it."""

    def __init__(self, settings: QueueSettings, partition: int) -> None:
        self._topic, self._partition = settings.marker_topic, partition
        self._failure = ""
        own = {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": _TICK_WITHIN_MS}
        self._producer = Producer(client_config(settings, {**own, "on_delivery": self._delivered}))

    def send(self, content: bytes) -> None:
        self._producer.produce(self._topic, content, partition=self._partition)
        self.check()

    def check(self) -> None:
        """Raise where a tick was lost, for which one would wait for ever."""
        self._producer.poll(0)
        if self._failure:
            raise Interrupted(f"Kafka did not take a tick: {self._failure}")

    def close(self) -> None:
        self._producer.purge()

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error:
            self._failure = error.str()
