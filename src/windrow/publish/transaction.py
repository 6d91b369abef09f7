"""Exactly-once publishing: the records of a page and the new position are one Kafka transaction.

Invariant: a page is in Kafka, for consumers that read committed, if and only if its position is. The transactional ids
are stable for a shard, so opening a publisher ends whatever its predecessor left open, and fences it; only then is the
committed position read, which is where the capture has to start.

Released dead letters are published in the same way. Their progress is a number, which every transaction commits beside
the position: each moves one of the two and repeats the other.
"""

import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from windrow.errors import Interrupted, PublishFailed, RelayFenced
from windrow.kafka.clients import committed_position, error_of, own_exception, position_reader
from windrow.publish.sending import DEFAULTS, producer_config, refusal, send
from windrow.record import Committed, Progress, Record, Released, Shard
from windrow.settings import Settings

log = logging.getLogger(__name__)

_FENCED: Final = frozenset(
    {
        KafkaError._FENCED,  # noqa: SLF001 - librdkafka's own codes start with an underscore
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.PRODUCER_FENCED,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
    }
)
_SETTLE_WITHIN: Final = 30.0
_OFFSETS_WITHIN: Final = 10.0
# Two producers in turns: a commit returns before the broker has ended the transaction in all partitions, and until then
# the same producer's next one is put off by 20 ms.
_PLACES: Final = ("a", "b")
_ABORT_WITHIN: Final = 5.0


class PositionsPublisher:
    """Commits what several shards have committed, all or nothing. Whoever opens one fences those opened before it."""

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.position_topic
        self._producer = _producer(settings, "positions")
        with self._translated():
            self._producer.init_transactions(_SETTLE_WITHIN)

    def commit(self, membership: bytes, positions: Mapping[int, Committed]) -> None:
        """Refused where the membership is over."""
        offsets = [TopicPartition(self._topic, shard, at.published, at.metadata) for shard, at in positions.items()]
        with self._translated():
            self._producer.begin_transaction()
            self._producer.send_offsets_to_transaction(offsets, membership, _OFFSETS_WITHIN)
            self._producer.commit_transaction(_SETTLE_WITHIN)

    @staticmethod
    @contextlib.contextmanager
    def _translated() -> Iterator[None]:
        try:
            yield
        except KafkaException as exception:
            raise Interrupted(f"positions were not committed: {error_of(exception).str()}") from exception


def _producer(settings: Settings, purpose: int | str, **own: Any) -> Producer:
    """A producer whose transactional id is stable for a shard, or for another purpose."""
    own["transactional.id"] = f"windrow.{settings.name}.{purpose}"
    return Producer(producer_config(settings, DEFAULTS, own))


class _SequenceSkipped(Interrupted):
    """librdkafka aborts the first transaction after one with a refused record; the same one goes through again."""


class TransactionalPublisher:
    """Publishes the pages of one shard."""

    def __init__(self, settings: Settings, shard: Shard) -> None:
        """Connect; nobody is disturbed before `open`."""
        self._settings, self._shard = settings, shard.index
        self._membership = b""
        self._source = settings.source.encode()
        self._refusals: list[PublishFailed] = []
        self._in_transaction = False
        self._reader = position_reader(settings)
        own = {"delivery.report.only.error": True, "on_delivery": self._refused}
        self._producers = [_producer(settings, f"{shard.index}.{place}", **own) for place in _PLACES]
        self._place = 0
        self.committed: Committed | None = None
        """Where the shard stands; None where it has never published."""
        with self._translated():
            for each in self._producers:
                each.list_topics(settings.position_topic, timeout=_SETTLE_WITHIN)
        with contextlib.suppress(Interrupted):  # for the connection's sake; what counts is read once it is our turn
            self._read_committed()

    def open(self, membership: bytes, saved: Committed | None) -> None:
        """End and fence the predecessor, and read how far it came."""
        self._membership = membership
        with self._translated(), ThreadPoolExecutor(len(self._producers)) as threads:
            list(threads.map(lambda each: each.init_transactions(_SETTLE_WITHIN), self._producers))
        self._read_committed()
        if self.committed is None and saved is not None:
            if saved.published:  # otherwise it is where the shard begins
                log.warning(
                    "relay %s, shard %d: Kafka has forgotten its position (offsets.retention.minutes); going on from"
                    " the one in the database: what was published after it was saved comes again",
                    self._settings.name,
                    self._shard,
                )
            self.committed = saved

    def _read_committed(self) -> None:
        self.committed = committed_position(self._reader, self._settings, self._shard)

    def publish(self, records: Sequence[Record], progress: Progress | Released) -> None:
        """Publish the records and the progress that they make, or raise and publish nothing."""
        before = self.committed or Committed(0, "")
        published = before.published + len(records)
        if isinstance(progress, Released):
            after = before._replace(published=published, released=progress.number)
        else:
            after = before._replace(published=published, position=progress.encode())
        self._commit(records, after)

    def renew(self) -> None:
        """Commit what is committed anew: Kafka does not forget it, and says whether this publisher is fenced."""
        if self.committed is not None:
            self._commit([], self.committed)

    def publish_pages(self, pages: Iterable[Sequence[Record]], progress: Progress) -> int:
        """Publish pages as they come, all in one transaction, and the progress that holds after the last; how many."""
        with self._transaction():
            count = 0
            for page in pages:
                send(self._producer, self._source, page)
                count += len(page)
            before = self.committed or Committed(0, "")
            self._finish(before._replace(published=before.published + count, position=progress.encode()))
        return count

    def _commit(self, records: Sequence[Record], committed: Committed) -> None:
        try:
            self._try_commit(records, committed)
        except _SequenceSkipped:
            self._try_commit(records, committed)

    def _try_commit(self, records: Sequence[Record], committed: Committed) -> None:
        with self._transaction():
            send(self._producer, self._source, records)
            self._finish(committed)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._translated():
            self._refusals.clear()
            self._producer.begin_transaction()
            self._in_transaction = True
            yield

    def _finish(self, committed: Committed) -> None:
        # Flushed first: sent beside the last records, the offsets would lose a race at the coordinator (100 ms).
        self._producer.flush()
        position = TopicPartition(self._settings.position_topic, self._shard, committed.published, committed.metadata)
        self._producer.send_offsets_to_transaction([position], self._membership, _OFFSETS_WITHIN)
        self._producer.commit_transaction(_SETTLE_WITHIN)
        self._in_transaction = False
        self.committed = committed
        self._place = (self._place + 1) % len(self._producers)

    def close(self) -> None:
        """Leave no transaction open where Kafka can still be told; otherwise the successor ends it."""
        if self._in_transaction:
            with contextlib.suppress(KafkaException):
                self._producer.abort_transaction(_ABORT_WITHIN)
        for each in self._producers:
            each.purge()
        self._reader.close()

    @property
    def _producer(self) -> Producer:
        """The one whose turn it is."""
        return self._producers[self._place]

    def _abort(self) -> None:
        """Go back to before the transaction, so that a part of its records can be tried."""
        try:
            self._producer.abort_transaction(_ABORT_WITHIN)
        except KafkaException as exception:
            raise Interrupted(f"Kafka broke off: {error_of(exception).str()}") from exception
        self._in_transaction = False

    def _refused(self, error: KafkaError, message: Message) -> None:
        if refused := refusal(error, message.topic() or "?"):
            self._refusals.append(refused)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except PublishFailed:  # before a broker was asked
            self._abort()
            raise
        except (KafkaException, SystemError) as raised:
            exception = own_exception(raised)
            error = error_of(exception)
            if self._in_transaction and (self._refusals or error.txn_requires_abort()):
                self._abort()  # which also brings the reports of what failed
            if self._refusals:
                raise self._refusals[0] from exception
            if error.code() in _FENCED:
                raise RelayFenced(f"the group has moved on: {error.str()}") from exception
            if error.code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise _SequenceSkipped(f"Kafka broke off: {error.str()}") from exception
            raise Interrupted(f"Kafka broke off: {error.str()}") from exception
