"""The watch over one markers partition: read markers, ask for the time, have moved what is due.

Invariant: it acts only when it reads a tick of its own. By then it has read whatever was written before, and knows the
time by the clock that stamped it. Its own clock only says when to ask.
"""

import logging
import time
from typing import Any, Final
from uuid import uuid4

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from windrow.errors import Interrupted
from windrow.kafka.clients import client_config, error_of
from windrow.kafka.contact import Contact, Flow
from windrow.queue.marker import MalformedMarker, decode, encode
from windrow.queue.marker_pb2 import Marker
from windrow.queue.mover import Mover, Tally
from windrow.queue.payloads import Payloads
from windrow.queue.redelivery import State
from windrow.queue.settings import QueueSettings
from windrow.queue.transfer import Ticker, Transfer

log = logging.getLogger(__name__)

_READ_AT_ONCE: Final = 1000
_LOOK_EVERY: Final = 0.25
_COMMIT_EVERY: Final = 5.0
_CARRY_AGAIN: Final = 6
"""How many times `carry_after` a CARRY may be old before it is written anew."""


class Closed(Exception):
    """Not an error: the log says that the epoch is over."""


def reading(settings: QueueSettings) -> dict[str, Any]:
    """The configuration of a consumer of markers that is told what to read, and never commits."""
    own = {
        "group.id": settings.tracker_group,
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 500,
    }
    return client_config(settings, own)


class Watch:
    """From a log offset on, which the consumer is assigned; what came before it is not needed."""

    def __init__(  # noqa: PLR0913, PLR0917 - all that it stands on
        self,
        settings: QueueSettings,
        own: TopicPartition,
        epoch: bytes,
        consumer: Consumer,
        ticker: Ticker,
        transfer: Transfer,
        payloads: Payloads,
        tally: Tally,
    ) -> None:
        self._epoch, self._consumer, self._ticker, self._tally = epoch, consumer, ticker, tally
        self._contact = Contact(consumer, own.topic)
        self._flow = Flow(reading(settings), lambda: [TopicPartition(own.topic, own.partition, self._position)])
        self._name = f"tracker of {settings.message_topic}, markers partition {own.partition}"
        tracker = settings.redelivery_tracker
        self._ask_after = tracker.use_now_if_no_marker_seen.total_seconds()
        self._markers_per_commit = tracker.num_offsets_per_commit
        carry_after = round(tracker.carry_after.total_seconds() * 1000)
        self._state = State(carry_after, carry_after * _CARRY_AGAIN)
        self._mover = Mover(settings, own.partition, self._state, transfer, payloads, tally)
        self._me = uuid4().bytes
        self._position, self._log_time = own.offset, 0
        self._read_at = time.monotonic()
        self._told: int | None = None
        """The time that a tick of our own has told, and that nobody has acted on yet."""
        self._uncommitted = self._ticks = 0
        self._commit_at = time.monotonic() + _COMMIT_EVERY
        self._ask()

    def look(self) -> None:
        """Read what has come; act on a tick, or ask for the time where that may bring something."""
        message = self._consumer.poll(self._pause())
        if message is not None:
            self._read(message)
            for each in self._consumer.consume(_READ_AT_ONCE, 0):
                self._read(each)
        elif self._contact.lost() or self._flow.stuck():
            raise Interrupted("Kafka's client is lost")
        self._ticker.check()
        if self._told is not None:
            now, self._told = self._told, None
            self._mover.move(self._state.due(now), now, self._position)
            self._mover.carry(self._state.old(now), now, self._position)
        self._commit_now_and_then()
        if not self._asked and self._is_time_to_ask():
            self._ask()

    def _read(self, message: Message) -> None:
        if error := message.error():
            raise Interrupted(f"markers could not be read: {error.str()}")
        self._contact.heard()
        self._flow.heard()
        offset, content, (_, timestamp) = message.offset(), message.value(), message.timestamp()
        if offset is None:
            raise AssertionError("a message has an offset")
        self._position, self._log_time, self._read_at = offset + 1, timestamp, time.monotonic()
        try:
            marker = decode(content if isinstance(content, bytes) else None)
        except MalformedMarker as mistake:
            self._tally.malformed += 1
            if self._tally.malformed == 1:
                log.warning("%s: malformed at offset %d, skipped: %s", self._name, offset, mistake)
            return
        if marker.type == Marker.TICK:
            if marker.epoch == self._me:
                self._state.settle()
                self._told, self._asked = timestamp, False
        elif marker.type == Marker.CLOSE:
            if marker.epoch == self._epoch:
                raise Closed
        else:
            before = self._state.ignored
            self._state.apply(marker, offset, timestamp)
            self._tally.ignored += self._state.ignored - before
            self._tally.markers += 1
            self._uncommitted += not marker.epoch

    def _commit_now_and_then(self) -> None:
        if not (self._state.settled and self._uncommitted):
            return
        if self._uncommitted >= self._markers_per_commit or time.monotonic() >= self._commit_at:
            self._mover.commit(self._position)
            self._uncommitted, self._commit_at = 0, time.monotonic() + _COMMIT_EVERY

    def _until(self, at: int) -> float:
        """Seconds until the log's time is past that, as far as we can tell."""
        return (at + 1 - self._log_time) / 1000 - (time.monotonic() - self._read_at)

    def _pause(self) -> float:
        if self._asked or (at := self._state.next_at()) is None:
            return _LOOK_EVERY
        return min(max(self._until(at), 0.0), _LOOK_EVERY)

    def _is_time_to_ask(self) -> bool:
        at = self._state.next_at()
        return at is not None and (self._until(at) <= 0 or time.monotonic() - self._read_at >= self._ask_after)

    def _ask(self) -> None:
        self._ticks += 1
        self._asked = True
        try:
            self._ticker.send(encode(Marker(type=Marker.TICK, epoch=self._me, number=self._ticks)))
        except (BufferError, KafkaException) as exception:
            said = error_of(exception).str() if isinstance(exception, KafkaException) else str(exception)
            raise Interrupted(f"Kafka did not take a tick: {said}") from exception
