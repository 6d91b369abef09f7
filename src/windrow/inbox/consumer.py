"""A Kafka consumer whose handler's effects happen once: they, the inbox's entry and the offset are one transaction.

Offsets are kept in the database. Whenever partitions come, and whenever something went wrong, the consumer goes to
where the database says, and drops what it had received. So a message that is delivered again is not handled again, and
one that was handled by half is handled anew, on a database that knows nothing of the first time.

Kafka is told the offsets, too, but only for those who look at the group's lag.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, assert_never

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from windrow.database.connections import connect_plainly
from windrow.drivers import driver_of
from windrow.errors import HandlerFailed, Interrupted, KafkaUnreachable, PositionForeign, SettingsInvalid
from windrow.inbox.acceptance import CHUNK, Inbox
from windrow.inbox.dead_letter import Letters
from windrow.inbox.settings import ConsumerSettings
from windrow.inbox.work import Done, Failed, Handler, Lost, Place, Spans, Spoiled, Work
from windrow.kafka.clients import client_config
from windrow.kafka.contact import Flow, Membership, part_from

log = logging.getLogger(__name__)

_LOOK_AGAIN: Final = 0.2
"""Seconds that a call of Kafka's client may take while there is nothing to do: how soon a stop is noticed."""
_ANSWER_WITHIN: Final = 10.0
_PURGE_EVERY: Final = 60.0
_SILENT_AT_MOST: Final = 300_000
"""Kafka's own default of max.poll.interval.ms."""
_REFUSED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,  # noqa: SLF001 - librdkafka's own codes start with an underscore
    }
)


@dataclass(frozen=True, slots=True)
class _Run:
    """Messages that are to be handled in one transaction."""

    messages: Sequence[Message]


@dataclass(frozen=True, slots=True)
class _GiveUp:
    """A message that the handler has failed on as often as it may."""

    message: Message
    error: Exception


_Step: TypeAlias = _Run | _GiveUp


@dataclass(slots=True)
class Counts:
    """What a consumer has done."""

    accepted: int = 0
    """Messages that were handled."""
    duplicates: int = 0
    """Messages that were refused, since they had been handled before."""
    retries: int = 0
    """Times that the handler failed on a message."""
    dead_lettered: int = 0
    interruptions: int = 0
    """Times that the database or Kafka broke off."""


class InboxConsumer:
    """Consumes topics and calls `handler(connection, message)` for each message, once.

    The connection is in a transaction, which the consumer commits: the handler neither commits nor rolls back. Messages
    are confluent_kafka's. `connect` opens a connection that is not in autocommit, of any library that `Inbox` knows;
    without it there is one of psycopg or PyMySQL to `settings.data_source`.
    """

    def __init__(self, settings: ConsumerSettings, handler: Handler, connect: Callable[[], Any] | None = None) -> None:
        if connect is None and not settings.data_source:
            raise SettingsInvalid(["dataSource: give the database, or connect, which opens connections to it"])
        self._settings = settings
        inbox = Inbox(settings.group, settings.inbox_table)
        self._work = Work(connect or partial(connect_as_set, settings), inbox, handler)
        self._letters = Letters(settings)
        self._stopping = threading.Event()
        self._at: dict[Place, int] = {}
        """The partitions that this consumer has, and the offset that each is at, as far as it knows."""
        self._astray = False
        """Whether what was received may be something else than what follows on the offsets."""
        self._failures: Counter[tuple[Place, int]] = Counter()
        self.counts = Counts()
        """What it has done since it was made; may be read from any thread."""
        self._consumer: Consumer

    @property
    def group(self) -> str:
        return self._settings.group

    def stop(self) -> None:
        """Have `run` return after the transaction that is under way. May be called from any thread."""
        self._stopping.set()

    def run(self) -> None:
        """Consume until `stop` is called, or something is wrong that does not pass."""
        self._work.offsets()  # raises where the database or the tables are not there
        self._join()
        try:
            self._loop()
        finally:
            part_from(self._consumer)
            self._letters.close()
            self._work.close()

    def _join(self) -> None:
        self._member = Membership()
        group = {
            "group.id": self._settings.group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",  # to skip messages without a word is not for us
        }
        self._flow = Flow(client_config(self._settings, group), lambda: _kafkas(self._at))
        own = {**group, **self._member.config(), "enable.auto.commit": True, "enable.auto.offset.store": False}
        self._consumer = Consumer(client_config(self._settings, own))
        self._consumer.subscribe(
            [*self._settings.topics], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def _join_anew(self) -> None:
        log.warning("group %s: Kafka's client is lost; joining anew", self._settings.group)
        lost = self._consumer
        self._join()
        self._at.clear()
        part_from(lost, within=0.0)

    def _loop(self) -> None:
        interruptions, purge_at = 0, time.monotonic() + _PURGE_EVERY
        while not self._stopping.is_set():
            try:
                if self._astray:
                    self._go_where_the_database_says()
                messages = self._receive()
                if not self._astray and messages:
                    self._work_through(messages)
                if time.monotonic() >= purge_at:
                    full = self._work.purge(self._settings.retention) == CHUNK
                    purge_at = time.monotonic() + (0 if full else _PURGE_EVERY)
                interruptions = 0
            except (Interrupted, KafkaException) as interruption:
                interruptions += 1
                self.counts.interruptions += 1
                log.warning("group %s: %s; going on from the database's offsets", self._settings.group, interruption)
                self._astray = True
                self._wait(self._settings.pause(interruptions))

    def _receive(self) -> list[Message]:
        """What is there, a batch at most; where nothing is, what comes first within a while."""
        first = self._consumer.poll(_LOOK_AGAIN)
        if first is None:
            if self._member.lost() or self._flow.stuck():
                self._join_anew()
            return []
        self._flow.heard()
        more = self._consumer.consume(self._settings.batch_records - 1, 0) if self._settings.batch_records > 1 else []
        return [each for each in (first, *more) if self._sound(each)]

    def _sound(self, message: Message) -> bool:
        """Whether it is a message of a partition that we have; errors that do not pass are raised."""
        error = message.error()
        if error is None:
            return _place(message) in self._at
        if error.code() == KafkaError._AUTO_OFFSET_RESET:  # noqa: SLF001 - as above
            raise PositionForeign(
                f"{message.topic()} [{message.partition()}] has no message any more at the offset that the inbox is at:"
                f" {error.str()}\nIt was deleted before it was consumed, or the topic was made anew. To go on at the"
                f" first that is there, delete the partition's row from {self._settings.inbox_table}_offset."
            )
        if error.fatal() or error.code() in _REFUSED:
            raise KafkaUnreachable(f"group {self._settings.group}: {error.str()}; check rights and credentials")
        if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - as above
            log.warning("group %s: %s", self._settings.group, error.str())
        return False

    def _work_through(self, messages: Sequence[Message]) -> None:
        """Handle the messages in as few transactions as failures allow, in the order of each partition."""
        steps: list[_Step] = [_Run(messages)]
        while steps and not self._astray and not self._stopping.is_set():
            step = steps.pop()
            match step:
                case _Run():
                    steps += self._handle(step.messages)
                case _GiveUp():
                    self._give_up(step)
                case _:
                    assert_never(step)
        if steps:
            self._astray = True

    def _handle(self, messages: Sequence[Message]) -> list[_Step]:
        """Handle them in one transaction; what is left to do where that fails, the last first."""
        spans = self._spans(messages)
        outcome = self._work.do(messages, spans)
        match outcome:
            case Done(accepted):
                self.counts.accepted += accepted
                self.counts.duplicates += len(messages) - accepted
                self._arrived(spans)
                return []
            case Lost():
                self._astray = True
                return []
            case Failed(message, error):
                return self._after_failure(messages, message, error)
            case Spoiled() if len(messages) > 1:
                half = len(messages) // 2
                return [_Run(messages[half:]), _Run(messages[:half])]
            case Spoiled():
                broken = HandlerFailed("the handler swallowed a database error, or rolled back")
                return self._after_failure(messages, messages[0], broken)
            case _:
                assert_never(outcome)

    def _after_failure(self, messages: Sequence[Message], failed: Message, error: Exception) -> list[_Step]:
        key = (_place(failed), failed.offset() or 0)
        self._failures[key] += 1
        failures = self._failures[key]
        self.counts.retries += 1
        index = next(each for each, message in enumerate(messages) if message is failed)
        log.warning("group %s: the handler failed on %s for the %d. time: %r", *self._named(failed), failures, error)
        if failures >= self._settings.max_attempts:
            single: _Step = _GiveUp(failed, error)
        else:
            single = _Run([failed])
            if len(messages) == 1:
                self._wait(self._settings.pause(failures))
        steps: list[_Step] = [_Run(messages[index + 1 :]), single, _Run(messages[:index])]
        return [step for step in steps if not isinstance(step, _Run) or step.messages]

    def _give_up(self, step: _GiveUp) -> None:
        message, error = step.message, step.error
        key = (_place(message), message.offset() or 0)
        if not self._settings.dead_letter_topic:
            raise HandlerFailed(
                "group {}: the handler failed on {} for good: {!r}\nMend the handler, or give a"
                " deadLetterTopic.".format(*self._named(message), error)
            ) from error
        self._letters.send(message, error, self._failures[key])
        log.error("group %s: %s is a dead letter: %r", *self._named(message), error)
        spans = self._spans([message])
        if isinstance(self._work.skip(message, spans), Done):
            self.counts.dead_lettered += 1
            del self._failures[key]
            self._arrived(spans)
        else:
            self._astray = True

    def _spans(self, messages: Iterable[Message]) -> Spans:
        ends = {_place(message): (message.offset() or 0) + 1 for message in messages}
        return {place: (self._at[place], end) for place, end in ends.items()}

    def _arrived(self, spans: Spans) -> None:
        self._at |= {place: end for place, (_, end) in spans.items()}
        for place, offset in [*self._failures]:
            if place in spans and offset < self._at[place]:
                del self._failures[place, offset]
        self._consumer.store_offsets(offsets=_kafkas({place: self._at[place] for place in spans}))

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._failures.clear()
        found = self._found([Place(each.topic, each.partition) for each in partitions])
        if not self._incremental:
            self._at.clear()
        self._at |= found
        if self._incremental:
            consumer.incremental_assign(_kafkas(found))
        else:
            consumer.assign(_kafkas(found))
        self._astray = True

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if consumer is not self._consumer:  # but one that was lost
            return
        for each in partitions:
            self._at.pop(Place(each.topic, each.partition), None)
        self._astray = True

    def _go_where_the_database_says(self) -> None:
        """Begin anew in all partitions that we have, at the offsets in the database."""
        self._astray = False
        if not self._at:
            return
        self._at = self._found([*self._at])
        if self._incremental:
            self._consumer.incremental_unassign(_kafkas(self._at))
            self._consumer.incremental_assign(_kafkas(self._at))
        else:
            self._consumer.assign(_kafkas(self._at))

    def _found(self, places: Sequence[Place]) -> dict[Place, int]:
        """The offsets of these partitions; those that have none get the one to start at. Goes on until they are had."""
        failures = 0
        while True:
            try:
                known = self._work.offsets()
                if new := [place for place in places if place not in known]:
                    self._work.enter(self._starts(new))
                    known = self._work.offsets()
                return {place: known[place] for place in places}
            except (Interrupted, KafkaException) as interruption:
                failures += 1
                log.warning("group %s: %s", self._settings.group, interruption)
                if self._stopping.wait(self._settings.pause(failures)):
                    return {}

    def _starts(self, places: Sequence[Place]) -> dict[Place, int]:
        """Where to begin: where the group was before it had an inbox, otherwise at an end of the partition."""
        committed = self._consumer.committed([TopicPartition(*place) for place in places], timeout=_ANSWER_WITHIN)
        starts = {Place(each.topic, each.partition): each.offset for each in committed if each.offset >= 0}
        for place in places:
            if place not in starts:
                low, high = self._consumer.get_watermark_offsets(TopicPartition(*place), timeout=_ANSWER_WITHIN)
                starts[place] = low if self._settings.start == "earliest" else high
        return starts

    def _wait(self, seconds: float) -> None:
        """Wait as a living member of the group, but take no message."""
        held = _kafkas(self._at)
        self._consumer.pause(held)
        deadline = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := deadline - time.monotonic()) > 0:
            if self._consumer.poll(min(left, _LOOK_AGAIN)) is not None:
                self._astray = True
        self._consumer.resume(_kafkas(self._at))

    @property
    def _incremental(self) -> bool:
        """Whether partitions come and go one by one."""
        config = self._settings.base_kafka_config
        cooperative = "cooperative" in config.get("partition.assignment.strategy", "")
        return cooperative or config.get("group.protocol") == "consumer"

    def _named(self, message: Message) -> tuple[str, str]:
        return self._settings.group, f"{message.topic()} [{message.partition()}] at offset {message.offset()}"


def connect_as_set(settings: ConsumerSettings) -> Any:
    """A connection whose transactions the server ends when they are silent for longer than a member of the group may
    be: by then another has the partition, and waits for its offset. MySQL knows silent connections only, in a
    transaction or not.
    """
    connection = connect_plainly(settings.data_source, f"windrow inbox {settings.group}")
    milliseconds = int(settings.base_kafka_config.get("max.poll.interval.ms", _SILENT_AT_MOST))
    driver = driver_of(connection)
    if driver.dialect == "postgresql":
        driver.change(f"SET idle_in_transaction_session_timeout = {milliseconds}")
    else:
        seconds = -(-milliseconds // 1000)
        limits = "/*M! idle_transaction_timeout *//*!80000 wait_timeout */"
        driver.change(f"SET SESSION {limits} = {seconds}")
    connection.commit()
    return connection


def _place(message: Message) -> Place:
    return Place(message.topic() or "", message.partition() or 0)


def _kafkas(offsets: Mapping[Place, int]) -> list[TopicPartition]:
    return [TopicPartition(*place, offset) for place, offset in offsets.items()]
