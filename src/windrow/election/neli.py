"""Neli: leader election over a Kafka consumer group, without any other service.

All candidates of one name, relays or trackers, subscribe to the leader topic in one group; Kafka gives partition 0 to
one of them, and that one leads. It sends heartbeats to the partition and receives them: so it knows that it is
connected and still owns it. If none comes back for `heartbeatTimeout`, it steps down by itself, before or after Kafka
has chosen another.

Trust: what decides is not this view but the broker. Every transaction carries the membership (group, generation,
member), and the broker refuses those of a member whose generation is over. A leader that was paused and wakes up
believes in its term for a moment, and can publish nothing in it.

The same group keeps the relay's positions, of another topic: this consumer never commits, and starts every assignment
at the end of the leader topic.
"""

import contextlib
import logging
import struct
import threading
import time
from datetime import timedelta
from types import TracebackType
from typing import Final, Protocol, Self
from uuid import UUID, uuid4

from confluent_kafka import OFFSET_END, Consumer, KafkaError, Message, Producer, TopicPartition

from windrow.beside import Beside
from windrow.election.mandate import Mandate, Term
from windrow.kafka.clients import Configured, client_config
from windrow.kafka.contact import Membership, part_from

log = logging.getLogger(__name__)

_LEADERS_PARTITION: Final = 0
_POLL: Final = 0.1
_HEARTBEAT: Final = struct.Struct("!16sd")
_HEARTBEATS_PER_TIMEOUT: Final = 5
_HEARTBEATS_PER_SESSION: Final = 4
_LOST_AFTER_TIMEOUTS: Final = 3


class Timeouts(Protocol):
    """How long a candidate and the group bear with silence."""

    @property
    def heartbeat_timeout(self) -> timedelta: ...

    @property
    def session_timeout(self) -> timedelta: ...


class Candidacy(Configured, Protocol):
    """What is stood for, and where; a relay's settings are one."""

    @property
    def name(self) -> str: ...

    @property
    def leader_topic(self) -> str: ...

    @property
    def leader_group_id(self) -> str: ...

    @property
    def limits(self) -> Timeouts: ...


class Neli(Beside):
    """A candidate, while its context lasts. `term` is its present one, None while another leads; for any thread."""

    def __init__(self, settings: Candidacy) -> None:
        self._settings = settings
        self._timeout = settings.limits.heartbeat_timeout.total_seconds()
        self._id = uuid4()
        self._mandate = Mandate()
        self._lock = threading.Lock()
        self._beat_at = 0.0
        self._complained = ""
        super().__init__(f"election of {settings.name}", self._run)

    @property
    def term(self) -> Term | None:
        return self._mandate.term

    def __enter__(self) -> Self:
        self._join()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the group, so that another can lead at once."""
        super().__exit__(kind, error, trace)
        part_from(self._consumer)
        part_from(self._producer, within=0.0)

    def resign(self, term: UUID) -> None:
        """End a term that turned out to be over, though no rebalance has told so yet."""
        with self._lock:
            if self._mandate.term and self._mandate.term.id == term:
                self._mandate = self._mandate.resigned()

    def _join(self) -> None:
        self._member = Membership()
        self._consumer, self._producer = self._make_consumer(), self._make_producer()
        self._consumer.subscribe(
            [self._settings.leader_topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _make_producer(self) -> Producer:
        within = {"message.timeout.ms": int(self._timeout * 1000)}
        return Producer(client_config(self._settings, {**within, "on_delivery": self._delivered}))

    def _make_consumer(self) -> Consumer:
        session = int(self._settings.limits.session_timeout.total_seconds() * 1000)
        return Consumer(
            client_config(
                self._settings,
                {
                    **self._member.config(),
                    "group.id": self._settings.leader_group_id,
                    "enable.auto.commit": False,
                    "partition.assignment.strategy": "cooperative-sticky",
                    "session.timeout.ms": session,
                    "heartbeat.interval.ms": session // _HEARTBEATS_PER_SESSION,
                    # Also how long a rebalance waits for members that are gone. A broker that was killed has been
                    # seen to keep those beyond their session: by default, for five minutes without a leader.
                    "max.poll.interval.ms": session,
                    "allow.auto.create.topics": False,
                },
            )
        )

    def _run(self) -> None:
        try:
            while not self.over.is_set():
                self._look(self._consumer.poll(_POLL), time.monotonic())
                if self._is_lost(time.monotonic()):
                    self._join_anew()
        finally:
            self._mandate = Mandate()  # whatever ended this thread: nobody watches over the term any more

    def _is_lost(self, now: float) -> bool:
        """Whether clients seem to find no broker any more: nobody hears what the owner of the partition says."""
        mandate = self._mandate
        unheard = mandate.owner and now - mandate.heard_at > _LOST_AFTER_TIMEOUTS * self._timeout
        return unheard or self._member.lost()

    def _join_anew(self) -> None:
        log.warning("%s: election on topic %s: Kafka's client is lost; joining anew", *self._where)
        lost = self._consumer, self._producer
        self._join()
        with self._lock:
            self._mandate = Mandate()
        for each in lost:
            part_from(each, within=0.0)

    def _look(self, message: Message | None, now: float) -> None:
        if message is not None and (error := message.error()):
            self._complain(error)
        with self._lock:
            if message is not None and self._is_fresh(message, now):
                self._mandate = self._mandate.heard(self._membership(), now, uuid4())
            elif self._mandate.term and self._membership() != self._mandate.term.membership:
                self._mandate = self._mandate.renewed(self._membership())
            self._mandate = self._mandate.checked(now, self._timeout)
            owner = self._mandate.owner
        if owner and now >= self._beat_at:
            self._beat(now)

    def _beat(self, now: float) -> None:
        self._beat_at = now + self._timeout / _HEARTBEATS_PER_TIMEOUT
        with contextlib.suppress(BufferError):  # then heartbeats are on their way, or time out
            self._producer.produce(
                self._settings.leader_topic, _HEARTBEAT.pack(self._id.bytes, now), partition=_LEADERS_PARTITION
            )
        self._producer.poll(0)

    def _is_fresh(self, message: Message, now: float) -> bool:
        """Whether it is a heartbeat of our own, not one that was long under way."""
        content = message.value()
        if message.error() or not isinstance(content, bytes) or len(content) != _HEARTBEAT.size:
            return False
        sender, sent_at = _HEARTBEAT.unpack(content)
        return bool(sender == self._id.bytes and now - sent_at <= self._timeout)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error:
            self._complain(error)

    def _complain(self, error: KafkaError) -> None:
        """Say once what keeps this one from leading, such as a missing right or a time-out that brokers refuse."""
        if error.str() != self._complained:
            self._complained = error.str()
            log.warning("%s: election on topic %s: %s", *self._where, error.str())

    @property
    def _where(self) -> tuple[str, str]:
        return self._settings.name, self._settings.leader_topic

    def _membership(self) -> bytes:
        metadata: bytes = self._consumer.consumer_group_metadata()
        return metadata

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            partition.offset = OFFSET_END
        consumer.incremental_assign(partitions)
        if self._leads(partitions):
            with self._lock:
                self._mandate = self._mandate.assigned(self._membership(), time.monotonic(), uuid4())

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._leads(partitions) and consumer is self._consumer:
            with self._lock:
                self._mandate = self._mandate.revoked()
        consumer.incremental_unassign(partitions)

    @staticmethod
    def _leads(partitions: list[TopicPartition]) -> bool:
        return any(each.partition == _LEADERS_PARTITION for each in partitions)
