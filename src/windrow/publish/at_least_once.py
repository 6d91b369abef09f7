"""At-least-once publishing, for brokers without transactions: mark-purge/reset.

Each record that Kafka has acknowledged is purged, that is, deleted from the outbox, in bulk with the others that have
come; what is not purged is marked and published anew by whoever comes next. The scoreboard says what may be sent.

Invariants:
- Of each key the worst is R0, R1, R1, R2: a record may repeat at once, never after a later one of its key.
- Nothing is left under way: `publish` and `close` return once every record sent is answered, at the latest when it has
  timed out; and that is sooner than a successor is chosen.

How many records were published is committed as an offset: a figure to look at, nothing depends on it. The progress
among released dead letters stands beside it, and is committed before `publish` returns. There is no position.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from windrow.errors import Interrupted, PublishFailed
from windrow.kafka.clients import committed_position, error_of, own_exception, position_reader
from windrow.kafka.statistics import Statistics
from windrow.observe.provider import send_spans
from windrow.observe.sends import Sending
from windrow.publish.scoreboard import Scoreboard
from windrow.publish.sending import DEFAULTS, Report, producer_config, refusal, send
from windrow.record import Committed, Progress, Record, Released, Shard
from windrow.settings import Settings

_IN_FLIGHT: Final = 1_000
_LINGER: Final = 0  # a key waits for the whole round trip; batches grow by themselves under load
_REPORTS_WITHIN: Final = 0.1
_ANSWER_WITHIN: Final = 10.0
_TELL_EVERY: Final = 1.0
_TELL_WITHIN: Final = 5.0
_ANSWERS_WITHIN: Final = 0.05


def message_timeout(settings: Settings) -> timedelta:
    """How long a record may be under way: less than it takes until another leads, also if the user gave more."""
    limits = settings.limits
    bound = limits.lease_timeout if settings.election == "lease" else limits.session_timeout
    given = {**settings.base_kafka_config, **settings.producer_kafka_config}
    wanted = int(given.get("message.timeout.ms") or given.get("delivery.timeout.ms") or 0)
    return min(bound, timedelta(milliseconds=wanted)) if wanted else bound  # Kafka's 0 is forever


def _config(settings: Settings, timeout: timedelta) -> dict[str, Any]:
    millis = timeout // timedelta(milliseconds=1)
    defaults = {
        **DEFAULTS,
        "linger.ms": _LINGER,
        "topic.metadata.propagation.max.ms": min(DEFAULTS["topic.metadata.propagation.max.ms"], millis // 2),
    }
    config = producer_config(settings, defaults, {"enable.idempotence": True, "acks": "all"})
    for superseded in ("delivery.timeout.ms", "request.required.acks", "transaction.timeout.ms"):
        config.pop(superseded, None)
    config["message.timeout.ms"] = millis
    return config


class AtLeastOncePublisher:
    """Publishes the pages of one shard, and purges what has arrived.

    `purge` deletes rows by their ids in one statement. It should raise where they are no longer ours to delete: that
    alone stops a leader that was deposed without noticing.
    """

    def __init__(
        self,
        settings: Settings,
        shard: Shard,
        purge: Callable[[Sequence[int]], None],
        statistics: Statistics | None = None,
    ) -> None:
        """Connect; nobody is disturbed before `open`."""
        self._purge = purge
        self._source = settings.source.encode()
        self._spans = send_spans(settings.tracing, settings.source)
        self._limit = settings.limits.max_in_flight_records or _IN_FLIGHT
        self._timeout = message_timeout(settings)
        told = statistics.config() if statistics else {}
        self._producer = Producer({**_config(settings, self._timeout), **told})
        self._figure = _Figure(settings, shard)
        self.committed: Committed | None = None
        """What the shard has published; None where it has never done so."""
        try:
            self._producer.list_topics(settings.position_topic, timeout=_ANSWER_WITHIN)
        except KafkaException as exception:
            raise Interrupted(f"Kafka broke off: {error_of(exception).str()}") from exception

    def open(self, _membership: bytes, known: Committed | None, /) -> None:
        """Read how many records the predecessors have published."""
        self.committed = self._figure.read() or known

    def publish(self, records: Sequence[Record], progress: Progress | Released) -> None:
        """Publish the records and purge them; where some fail, those that do not."""
        page = _Page(records, self._limit)
        while page.board.busy:
            for record in page.board.ready():
                self._send(record, page)
            self._hear()
            if arrived := page.board.to_purge():
                self._purge(arrived)
                page.board.purged(arrived)
                page.published += arrived
                self._advance(len(arrived))
        page.check()
        self._advance(0, progress)

    def listen(self) -> None:
        """Let the client say what it has to say."""
        self._producer.poll(0)

    def renew(self) -> None:
        """Commit the figure anew: Kafka does not forget it."""
        if self.committed is not None:
            self._figure.settle(self.committed)

    def close(self) -> None:
        """Wait for what is under way, which is nothing unless a purge has failed."""
        self._producer.purge(in_flight=False)
        self._producer.flush(self._timeout.total_seconds())
        if self.committed is not None:
            with contextlib.suppress(Interrupted):  # it costs a figure
                self._figure.settle(self.committed)
        self._figure.close()

    def _send(self, record: Record, page: "_Page") -> None:
        if self._spans:
            record, page.sending[record.id] = self._spans.begin(record)
        try:
            send(self._producer, self._source, (record,), page.report)
        except PublishFailed as refused:
            page.refused(record.id, refused)
        except KafkaException as exception:
            page.failed(record.id, error_of(exception), record.topic)

    def _hear(self) -> None:
        """Take reports; a fatal error, after which this producer sends nothing any more, is worth another one."""
        try:
            self._producer.poll(_REPORTS_WITHIN)
        except (KafkaException, SystemError) as raised:
            exception = own_exception(raised)
            raise Interrupted(f"Kafka broke off: {error_of(exception).str()}") from exception

    def _advance(self, count: int, progress: Progress | Released | None = None) -> None:
        before = self.committed or Committed(0, "")
        after = before._replace(published=before.published + count, position="")
        if isinstance(progress, Released):
            after = after._replace(released=progress.number)
            self._figure.settle(after)
        else:
            self._figure.tell(after)
        self.committed = after


class _Page:
    """A page on its way, and what has gone wrong with it."""

    def __init__(self, records: Sequence[Record], limit: int) -> None:
        self.board = Scoreboard(records, limit)
        self.published: list[int] = []
        self.sending: dict[int, Sending | None] = {}
        self._refusal: PublishFailed | None = None
        self._error: KafkaError | None = None

    def report(self, number: int) -> Report:
        return partial(self._reported, number)

    def refused(self, number: int, refused: PublishFailed) -> None:
        self._failed(number, refused)
        self._refusal = self._refusal or refused

    def failed(self, number: int, error: KafkaError, topic: str) -> None:
        if refused := refusal(error, topic):
            self.refused(number, refused)
        else:
            self._failed(number, error.str())
            self._error = self._error or error

    def _failed(self, number: int, error: BaseException | str) -> None:
        self.board.failed(number)
        if sending := self.sending.pop(number, None):
            sending.end(error)

    def check(self) -> None:
        """Raise if not all is published."""
        if self._refusal:
            self._refusal.published = frozenset(self.published)
            raise self._refusal
        if self._error:
            raise Interrupted(f"Kafka broke off: {self._error.str()}")

    def _reported(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.board.acknowledged(number)
            if sending := self.sending.pop(number, None):
                sending.end()
        else:
            self.failed(number, error, message.topic() or "?")


class _Figure:
    """What the shard has published, as an offset of a group that has no members.

    A consumer commits it that never subscribes. (An admin client could alter the group's offsets as well; but while
    brokers go and come, that request of librdkafka 2.16 may abort the process.)
    """

    def __init__(self, settings: Settings, shard: Shard) -> None:
        self._settings, self._shard = settings, shard.index
        self._consumer = position_reader(settings, on_commit=self._answered)
        self._unanswered = 0
        self._error: KafkaError | None = None
        self._told: Committed | None = None
        self._tell_at = 0.0

    def read(self) -> Committed | None:
        return committed_position(self._consumer, self._settings, self._shard)

    def tell(self, committed: Committed) -> None:
        """Commit it, unless that was done a moment ago; nobody waits for the answer."""
        if committed != self._told and time.monotonic() >= self._tell_at:
            with contextlib.suppress(KafkaException):
                self._commit(committed)
            self._consumer.poll(0)  # takes answers

    def settle(self, committed: Committed) -> None:
        """Commit it, or raise."""
        deadline = time.monotonic() + _TELL_WITHIN
        try:
            self._commit(committed)
            while self._unanswered and time.monotonic() < deadline:
                self._consumer.poll(_ANSWERS_WITHIN)
        except KafkaException as exception:
            self._error = error_of(exception)
        if self._unanswered or self._error:
            raise Interrupted("Kafka did not take the number of published records")

    def close(self) -> None:
        self._consumer.close()

    def _commit(self, committed: Committed) -> None:
        self._told, self._tell_at = committed, time.monotonic() + _TELL_EVERY
        self._error = None
        topic = self._settings.position_topic
        offset = TopicPartition(topic, self._shard, committed.published, committed.metadata)
        self._consumer.commit(offsets=[offset], asynchronous=True)
        self._unanswered += 1

    def _answered(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        self._unanswered -= 1
        self._error = error or next((each.error for each in offsets if each.error), None)
