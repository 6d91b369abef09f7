"""Neli: leader election over a Kafka consumer group, without any other service.

All relays of one name subscribe to the leader topic in one group; Kafka gives partition 0 to one of them, and that one
leads. It sends heartbeats to the partition and receives them: so it knows that it is connected and still owns it. If
none comes back for `heartbeatTimeout`, it steps down by itself, before or after Kafka has chosen another.

Trust: what decides is not this view but the broker. Every transaction carries the membership (group, generation,
member), and the broker refuses those of a member whose generation is over. A leader that was paused and wakes up
believes in its term for a moment, and can publish nothing in it.

The group's committed offsets are the relay's positions, not places in the leader topic: this consumer never commits,
and starts every assignment at the end of the topic.
"""

import logging
import threading
import time
from typing import Final
from uuid import UUID, uuid4

from confluent_kafka import OFFSET_END, Consumer, KafkaException, Producer, TopicPartition

from windrow.election.mandate import Mandate, Term
from windrow.kafka.clients import client_config
from windrow.settings import Settings

log = logging.getLogger(__name__)

_LEADERS_PARTITION: Final = 0
_POLL: Final = 0.1
_HEARTBEATS_PER_TIMEOUT: Final = 5
_HEARTBEATS_PER_SESSION: Final = 4


class Neli:
    """A candidate. `term` is its present one, None while somebody else leads; read it from any thread."""

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.leader_topic
        self._timeout = settings.limits.heartbeat_timeout.total_seconds()
        session = int(settings.limits.session_timeout.total_seconds() * 1000)
        self._consumer = Consumer(
            client_config(
                settings,
                {
                    "group.id": settings.leader_group_id,
                    "enable.auto.commit": False,
                    "partition.assignment.strategy": "cooperative-sticky",
                    "session.timeout.ms": session,
                    "heartbeat.interval.ms": session // _HEARTBEATS_PER_SESSION,
                    "allow.auto.create.topics": False,
                },
            )
        )
        self._producer = Producer(
            client_config(settings, {"acks": "all", "message.timeout.ms": int(self._timeout * 1000)})
        )
        self._id = uuid4()
        self._mandate = Mandate()
        self._lock = threading.Lock()
        self._beat_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"election of {settings.name}", daemon=True)

    @property
    def term(self) -> Term | None:
        return self._mandate.term

    def start(self) -> None:
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, so that another can lead at once."""
        self._stop.set()
        self._thread.join()
        self._mandate = Mandate()
        self._consumer.close()

    def resign(self, term: UUID) -> None:
        """End a term that turned out to be over, though no rebalance has told so yet."""
        with self._lock:
            if self._mandate.term and self._mandate.term.id == term:
                self._mandate = self._mandate.resigned()

    def _run(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(_POLL)
            now = time.monotonic()
            with self._lock:
                if message is not None and message.error() is None and message.value() == self._id.bytes:
                    self._mandate = self._mandate.heard(self._membership(), now, uuid4())
                elif self._mandate.term and self._membership() != self._mandate.term.membership:
                    self._mandate = self._mandate.renewed(self._membership())
                self._mandate = self._mandate.checked(now, self._timeout)
                owner = self._mandate.owner
            if owner and now >= self._beat_at:
                self._beat(now)

    def _beat(self, now: float) -> None:
        self._beat_at = now + self._timeout / _HEARTBEATS_PER_TIMEOUT
        try:
            self._producer.produce(self._topic, self._id.bytes, partition=_LEADERS_PARTITION)
        except (BufferError, KafkaException) as error:
            log.debug("no heartbeat: %s", error)  # the time-out is the consequence
        self._producer.poll(0)

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
        if self._leads(partitions):
            with self._lock:
                self._mandate = self._mandate.revoked()
        consumer.incremental_unassign(partitions)

    @staticmethod
    def _leads(partitions: list[TopicPartition]) -> bool:
        return any(each.partition == _LEADERS_PARTITION for each in partitions)
