"""Leases messages, batch by batch: polls them, keeps what belongs to the queue, and begins a lease on it.

Invariant: a message is handed out only after the transaction is committed that holds its start marker, and the offset
behind it. So what no consumer holds is either before the committed offset and over, or behind it and not begun with.
A transaction that is refused, for a group that has moved on or a broker that was away, leaves no trace: the batch is
dropped, and all begins anew at the committed offsets.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from time import monotonic
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from windrow.errors import Interrupted
from windrow.kafka.clients import client_config, committed_offsets, error_of, own_exception
from windrow.kafka.contact import Flow, Membership, part_from
from windrow.kafka.offsets import send_offsets
from windrow.queue.keeper import Keeper
from windrow.queue.lease import Headers, Part, Word, marker
from windrow.queue.marker import encode, marker_partition, number_of
from windrow.queue.marker_pb2 import Marker
from windrow.queue.settings import QueueSettings
from windrow.queued import QUEUE, SENT, TTL

log = logging.getLogger(__name__)

_ANSWER_WITHIN: Final = 10.0
_MEMBERSHIP: Final = {"session.timeout.ms": 10_000, "max.poll.interval.ms": 30_000}
"""Milliseconds until the others go on without a consumer that died, and how long a group waits for one that it knows of
and that does not come: a broker that was killed remembers the dead. We poll all the time, whatever handlers do."""
_CHUNK: Final = 2000
_COMMIT_EVERY: Final = 1.0
_OVER: Final = "time to live is over"


class Intake:
    """The group's member and the transactions of one consumer. Belongs to one thread."""

    def __init__(self, settings: QueueSettings, queue: str, keeper: Keeper, marker_partitions: int) -> None:
        self._settings = settings
        self._queue = queue
        self._keeper = keeper
        self._marker_partitions = marker_partitions
        self._timeout = settings.redelivery_timeout.total_seconds()
        self._timeout_ms = int(self._timeout * 1000)
        self._lease = 0
        self._skipped: dict[int, int] = {}
        """Partitions and offsets behind which no message of this queue was found; not committed yet."""
        self._skipped_since = 0.0
        self._held_up = False
        self._astray = False
        self._transactional: Producer | None = None
        self._join()

    def _join(self) -> None:
        settings, self._member = self._settings, Membership()
        group = {
            "group.id": settings.group(self._queue),
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        self._flow = Flow(client_config(settings, group), self._standing)
        own = {
            **group,
            **self._member.config(),
            "enable.auto.commit": False,
            "queued.min.messages": 100_000,
            "fetch.wait.max.ms": 100,
        }
        config = {**_MEMBERSHIP, **client_config(settings, own)}
        config["max.poll.interval.ms"] = max(config["session.timeout.ms"], config["max.poll.interval.ms"], key=int)
        self._consumer = Consumer(config)
        self._consumer.subscribe([settings.message_topic], on_assign=self._moved, on_revoke=self._moved)

    def _join_anew(self) -> None:
        """Behind what is committed; what was received is dropped."""
        log.warning("queue %s: Kafka's client is lost; joining anew", self._queue)
        lost = self._consumer
        self._join()
        self._skipped.clear()
        self._held_up = self._astray = False
        part_from(lost, within=0.0)

    def poll(self, most: int, seconds: float) -> "Batch":
        """Messages, so many records at most; where none is there, what comes first within so many seconds."""
        if self._held_up:
            self._consumer.resume(self._consumer.assignment())
            self._flow.heard()
            self._held_up = False
        if self._astray:
            self._begin_anew()
        self._lease += 1
        batch = Batch(self._queue, self._part)
        first = self._consumer.poll(seconds)
        if first is None:
            if self._member.lost() or self._flow.stuck():
                self._join_anew()
            return batch
        self._flow.heard()
        batch.add([first])
        left = most - 1
        # In chunks: records that live for long keep Python's garbage collector busy.
        while left and (records := self._consumer.consume(min(left, _CHUNK), 0)):
            batch.add(records)
            left -= len(records)
        # Where Kafka did not tell the committed offsets, as after a restart, librdkafka says so once, and reads nothing
        # of these partitions until somebody assigns them anew.
        self._astray = batch.troubled
        return batch

    def stay(self) -> None:
        """Remain a member of the group while no message is wanted."""
        if not self._held_up:
            self._consumer.pause(self._consumer.assignment())
            self._held_up = True
        if self._consumer.poll(0) is not None:
            self._astray = True
        elif self._member.lost():
            self._join_anew()

    def lease(self, batch: "Batch") -> list[Part]:
        """Begin a lease on the messages; what there is to hand out."""
        parts = list(batch.parts.values())
        if not parts:
            self._skip(batch.ends)
            return []
        try:
            self._begin(parts, {**self._skipped, **batch.ends})
        except (KafkaException, SystemError) as raised:
            self._give_up(own_exception(raised))
            return []
        except Interrupted:
            self._astray, self._transactional = True, None
            raise
        self._skipped.clear()
        for part in parts:
            part.offer()
        self._bury(batch.mortal)
        self._keeper.add(parts)
        return parts

    def _part(self, partition: int) -> Part:
        to = marker_partition(self._queue, partition, self._marker_partitions)
        return Part(self._keeper, self._lease, partition, to)

    def _begin(self, parts: Sequence[Part], offsets: dict[int, int]) -> None:
        """Start markers and offsets in one transaction."""
        producer = self._producer()
        producer.begin_transaction()
        by_partition: dict[int, list[Part]] = {}
        for part in parts:
            by_partition.setdefault(part.marker_partition, []).append(part)
        for partition, group in by_partition.items():
            spans = [part.span(part.offsets) for part in group]
            start = Word(Marker.START, after_ms=self._timeout_ms)
            content = encode(marker(self._queue, self._keeper.identity, spans, start))
            started = partial(_started, group, self._timeout_ms, monotonic())
            producer.produce(self._settings.marker_topic, content, partition=partition, on_delivery=started)
        # The offsets would race with the markers at the coordinator, and the loser tries again 100 ms later.
        if producer.flush(_ANSWER_WITHIN):
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer to the start markers"))  # noqa: SLF001
        topic = self._settings.message_topic
        places = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        send_offsets(producer, places, self._consumer.consumer_group_metadata())
        producer.commit_transaction(_ANSWER_WITHIN)

    def _producer(self) -> Producer:
        if self._transactional is None:
            own = {
                "transactional.id": f"windrow-consumer-{uuid4()}",
                "transaction.timeout.ms": 10_000,
                "linger.ms": 0,
            }
            producer = Producer(client_config(self._settings, own))
            producer.init_transactions(_ANSWER_WITHIN)
            self._transactional = producer
        return self._transactional

    def _give_up(self, exception: KafkaException) -> None:
        """Leave no trace of a transaction that failed, and say so where it is not for the group's moving on."""
        error = error_of(exception)
        self._astray = True
        if self._transactional is not None:
            try:
                self._transactional.abort_transaction(_ANSWER_WITHIN)
            except (KafkaException, SystemError) as raised:
                own_exception(raised)
                self._transactional = None  # Kafka ends what it had begun after transaction.timeout.ms
        if error.code() not in _MOVED_ON:
            raise Interrupted(error.str())

    def _begin_anew(self) -> None:
        """Go to the committed offsets; what was received is dropped."""
        if held := self._consumer.assignment():
            self._consumer.assign(self._committed(held))
        self._skipped.clear()
        self._astray = False

    def _committed(self, held: list[TopicPartition]) -> list[TopicPartition]:
        """Where these partitions are to be read from: behind what is committed, or from the beginning."""
        committed = {each.partition: each.offset for each in committed_offsets(self._consumer, held)}
        return [
            TopicPartition(each.topic, each.partition, committed.get(each.partition, OFFSET_BEGINNING)) for each in held
        ]

    def _standing(self) -> list[TopicPartition]:
        """Behind what was received; where that is nothing yet, behind what is committed."""
        places = self._consumer.position(self._consumer.assignment())
        fresh = [each for each in places if each.offset < 0]
        return [each for each in places if each.offset >= 0] + (self._committed(fresh) if fresh else [])

    def _moved(self, consumer: Consumer, _partitions: list[TopicPartition]) -> None:
        """Partitions came or went."""
        if consumer is not self._consumer:  # but one that was lost
            return
        self._skipped.clear()
        self._flow.heard()
        self._held_up = False

    def _skip(self, ends: dict[int, int]) -> None:
        """Remember what need not be read again, and commit it now and then."""
        if not self._skipped:
            self._skipped_since = monotonic()
        self._skipped.update(ends)
        if self._skipped and monotonic() > self._skipped_since + _COMMIT_EVERY:
            topic = self._settings.message_topic
            places = [TopicPartition(topic, partition, offset) for partition, offset in self._skipped.items()]
            self._consumer.commit(offsets=places, asynchronous=True)
            self._skipped.clear()

    def _bury(self, mortal: list[tuple[Part, int, int]]) -> None:
        """Reject messages whose time was over when their lease began, by the broker's clock."""
        over: dict[Part, set[int]] = {}
        for part, offset, until in mortal:
            if part.hold.deadline - self._timeout_ms > until:
                over.setdefault(part, set()).add(offset)
        for part, offsets in over.items():
            part.leave_out(offsets)
            part.words += [Word(Marker.REJECT, offset, reason=_OVER) for offset in offsets]

    def close(self) -> None:
        part_from(self._consumer)


_MOVED_ON: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
    }
)


def _started(parts: Sequence[Part], after_ms: int, sent: float, error: KafkaError | None, answer: Any) -> None:
    """The broker has stamped a start marker."""
    if error is None:
        for part in parts:
            part.hold.confirm(answer.timestamp()[1], sent, monotonic(), after_ms)


class Batch:
    """Records in columns: the queue's messages in parts, and the offsets behind all that was read."""

    def __init__(self, queue: str, part_of: Callable[[int], Part]) -> None:
        self._key = queue.encode()
        self._part_of = part_of
        self.parts: dict[int, Part] = {}
        self.ends: dict[int, int] = {}
        self.troubled = False
        """Whether there were errors among the records."""
        self.mortal: list[tuple[Part, int, int]] = []
        """Messages with a time to live: part, offset, when it is over by the broker's clock."""

    def add(self, records: list[Message]) -> None:
        partitions = list(map(Message.partition, records))
        if partitions.count(partitions[0]) == len(records):
            self._add(partitions[0], records)
        else:
            for partition, group in groupby(records, Message.partition):
                self._add(partition, list(group))

    def _add(self, partition: int | None, records: list[Message]) -> None:
        """Records of one partition."""
        keys = list(map(Message.key, records))
        if keys.count(self._key) != len(keys):
            if partition is not None and (last := _last(records)) is not None:
                self.ends[partition] = last + 1
            records = [record for record, key in zip(records, keys, strict=True) if self._ours(record, key)]
        if not records or partition is None:
            return
        offsets: list[int] = list(map(Message.offset, records))  # type: ignore[arg-type]
        headers: list[Headers] | None = list(map(Message.headers, records))  # type: ignore[arg-type]
        part = self.parts.get(partition) or self.parts.setdefault(partition, self._part_of(partition))
        if headers is not None and headers.count(None) == len(headers):
            headers = None
        else:
            self._note_mortal(part, records)
        part.add(offsets, map(Message.value, records), headers)
        self.ends[partition] = max(self.ends.get(partition, 0), offsets[-1] + 1)

    def _note_mortal(self, part: Part, records: list[Message]) -> None:
        for record in records:
            headers: Headers = record.headers()  # type: ignore[assignment]
            if headers and (ttl := number_of(headers, TTL)) is not None:
                sent = number_of(headers, SENT) or record.timestamp()[1]
                self.mortal.append((part, record.offset() or 0, sent + ttl))

    def _ours(self, record: Message, key: bytes | None) -> bool:
        """Whether a record is the queue's."""
        if (error := record.error()) is not None:
            log.info("queue %s: %s", self._key.decode(), error.str())
            self.troubled = True
            return False
        return key == self._key or (key is None and (QUEUE, self._key) in (record.headers() or ()))


def _last(records: list[Message]) -> int | None:
    """The last offset of what are no errors."""
    return next((record.offset() for record in reversed(records) if record.error() is None), None)
