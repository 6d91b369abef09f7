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
from contextlib import AbstractContextManager, closing
from functools import partial
from operator import methodcaller
from typing import Final, Protocol

from confluent_kafka import TopicPartition

from windrow.closing import closed_on_error
from windrow.errors import Interrupted, RelayFenced
from windrow.kafka.clients import committed_position, meet_coordinator, position_reader
from windrow.kafka.contact import part_from
from windrow.kafka.offsets_log import TOPIC as OFFSETS
from windrow.kafka.offsets_log import logged_position
from windrow.kafka.statistics import Statistics
from windrow.observe.provider import send_spans
from windrow.publish.direct import DirectTransactor, not_understood
from windrow.publish.sending import DEFAULTS, producer_config
from windrow.publish.transactor import Transactor, persist
from windrow.record import Committed, Progress, Record, Released, Shard
from windrow.settings import Settings

log = logging.getLogger(__name__)

# Two producers in turns: a commit returns before the broker has ended the transaction in all partitions, and until then
# the same producer's next one is put off by 20 ms.
_PLACES: Final = ("a", "b")


class PositionsPublisher:
    """Commits what several shards have committed, all or nothing. Whoever opens one fences those opened before it."""

    def __init__(self, settings: Settings) -> None:
        self._topic = settings.position_topic
        with self._translated():
            self._transactor = transactor(settings, "positions")
            with closed_on_error(self._transactor):
                self._transactor.init()

    def commit(self, membership: bytes, positions: Mapping[int, Committed]) -> None:
        """Refused where the membership is over."""
        offsets = [TopicPartition(self._topic, shard, at.published, at.metadata) for shard, at in positions.items()]
        with self._translated():
            persist(partial(self._try_commit, membership, offsets))

    def close(self) -> None:
        self._transactor.close()

    def _try_commit(self, membership: bytes, offsets: list[TopicPartition]) -> None:
        with self._transactor.transaction():
            self._transactor.finish(offsets, membership)

    @staticmethod
    @contextlib.contextmanager
    def _translated() -> Iterator[None]:
        try:
            yield
        except (Interrupted, RelayFenced) as refused:
            raise Interrupted(f"positions were not committed: {refused}") from refused


class Transacting(Protocol):
    """Makes transactions, one at a time, under a name that is stable; see `windrow.publish.transactor`."""

    def connect(self) -> None: ...
    def init(self) -> None: ...
    def transaction(self) -> AbstractContextManager[None]: ...
    def send(self, source: bytes, records: Sequence[Record], /) -> None: ...
    def finish(self, offsets: list[TopicPartition], membership: bytes, /) -> None: ...
    def listen(self) -> None: ...
    def close(self) -> None: ...


def transactor(
    settings: Settings, purpose: str, statistics: Statistics | None = None, *, repeatable: bool = True
) -> Transacting:
    """One whose transactional id is stable for a shard, or for another purpose. In Kafka's own protocol, unless the
    brokers are older than that, or the user has set something that librdkafka alone knows; or what is sent cannot be
    sent again, and so is better sent by librdkafka, which is patient within a transaction.
    """
    config = producer_config(settings, DEFAULTS, {"transactional.id": f"windrow.{settings.name}.{purpose}"})
    if repeatable and not _for_librdkafka(settings):
        direct = DirectTransactor(config, statistics)
        if direct.speaks_all:
            return direct
        direct.close()
    return Transactor({**config, **(statistics.config() if statistics else {})})


def _for_librdkafka(settings: Settings) -> list[str]:
    """The settings that it alone knows."""
    return not_understood({**settings.base_kafka_config, **settings.producer_kafka_config})


def detour(settings: Settings) -> str | None:
    """Why shards publish by librdkafka, if they do."""
    if names := _for_librdkafka(settings):
        return f"{', '.join(names)} is set"
    with closing(transactor(settings, "doctor")) as made:
        return None if isinstance(made, DirectTransactor) else "the cluster has no transactions of version 2"


class TransactionalPublisher:
    """Publishes the pages of one shard."""

    def __init__(
        self, settings: Settings, shard: Shard, statistics: Statistics | None = None, *, repeatable: bool = True
    ) -> None:
        """Connect; nobody is disturbed before `open`. What comes once only (`publish_pages`) is not repeatable."""
        self._settings, self._shard, self._repeatable = settings, shard.index, repeatable
        self._membership = b""
        self._source = settings.source.encode()
        self._spans = send_spans(settings.tracing, settings.source)
        self._place = 0
        self.committed: Committed | None = None
        """Where the shard stands; None where it has never published."""
        self._reader = position_reader(settings)
        self._transactors: list[Transacting] = []
        with closed_on_error(self):
            for place in _PLACES:
                self._transactors.append(self._transacting(f"{shard.index}.{place}", statistics))
                self._transactors[-1].connect()
            meet_coordinator(self._reader, settings)

    def _transacting(self, place: str, statistics: Statistics | None) -> Transacting:
        return transactor(self._settings, place, statistics, repeatable=self._repeatable)

    def open(self, membership: bytes, known: Committed | None) -> None:
        """End and fence the predecessor, and read how far it came."""
        self._membership = membership
        with ThreadPoolExecutor(len(self._transactors)) as threads:
            list(threads.map(methodcaller("init"), self._transactors))
        told = self._ask()
        # Where a shard begins, Kafka has nothing of it, and nothing is missing.
        if known is None or (told.age >= known.age if told else not known.published):
            self.committed = told or known
            return
        logged = self._logged()
        if logged and logged.age >= known.age:
            self._remind(told, logged)
        elif told:
            raise Interrupted(
                f"Kafka tells an older position ({told.published:,} records published) than was committed before"
                f" ({known.published:,}); permit this user to read topic {OFFSETS}, or restart the broker that"
                f" coordinates group {self._settings.position_group_id}"
            )
        else:
            self.committed = known
            log.warning(
                "relay %s, shard %d: Kafka has forgotten its position (offsets.retention.minutes); going on from the"
                " one in the database: what was published after it was saved comes again",
                self._settings.name,
                self._shard,
            )

    def _logged(self) -> Committed | None:
        with contextlib.suppress(Interrupted):
            return logged_position(self._settings, self._shard)
        return None

    def _remind(self, told: Committed | None, logged: Committed) -> None:
        """Commit anew what a coordinator has in its log, and does not remember. What it tells is long past, and is not
        believed; nor is the log, if it says no better.
        """
        log.warning(
            "relay %s, shard %d: Kafka tells an older position (%s records published) than its log holds (%s); going on"
            " from there",
            self._settings.name,
            self._shard,
            f"{told.published:,}" if told else "no",
            f"{logged.published:,}",
        )
        self.committed = logged
        self.renew()

    def _ask(self) -> Committed | None:
        return committed_position(self._reader, self._settings, self._shard)

    def publish(self, records: Sequence[Record], progress: Progress | Released) -> None:
        """Publish the records and the progress that they make, or raise and publish nothing."""
        persist(partial(self._try_publish, records, progress))

    def renew(self) -> None:
        """Commit what is committed anew, if only that nothing is: Kafka does not forget it, and says whether this
        publisher is fenced.
        """
        persist(partial(self._try_renew, self.committed or Committed(0, "")))

    def listen(self) -> None:
        """Let the clients say what they have to say."""
        for each in self._transactors:
            each.listen()

    def publish_pages(self, pages: Iterable[Sequence[Record]], progress: Progress) -> int:
        """Publish pages as they come, all in one transaction, and the progress that holds after the last; how many."""
        with contextlib.ExitStack() as sending, self._transactor.transaction():
            count = 0
            for page in pages:
                self._transactor.send(self._source, sending.enter_context(self._traced(page)))
                count += len(page)
            self._finish(self._after(count, progress))
        return count

    def _try_publish(self, records: Sequence[Record], progress: Progress | Released) -> None:
        with self._transactor.transaction(), self._traced(records) as traced:
            self._transactor.send(self._source, traced)
            self._finish(self._after(len(records), progress))

    def _try_renew(self, committed: Committed) -> None:
        with self._transactor.transaction():
            self._finish(committed)

    def _after(self, count: int, progress: Progress | Released) -> Committed:
        """What is committed once so many more records are."""
        before = self.committed or Committed(0, "")
        published = before.published + count
        if isinstance(progress, Released):
            return before._replace(published=published, released=progress.number)
        return before._replace(published=published, position=progress.encode())

    def _traced(self, records: Sequence[Record]) -> AbstractContextManager[Sequence[Record]]:
        """The records with the spans of their sending, which end with the transaction."""
        return self._spans.sending(records) if self._spans else contextlib.nullcontext(records)

    def _finish(self, committed: Committed) -> None:
        position = TopicPartition(self._settings.position_topic, self._shard, committed.published, committed.metadata)
        self._transactor.finish([position], self._membership)
        self.committed = committed
        self._place = (self._place + 1) % len(self._transactors)

    def close(self) -> None:
        """Leave no transaction open where Kafka can still be told; otherwise the successor ends it."""
        for each in self._transactors:
            each.close()
        part_from(self._reader)

    @property
    def _transactor(self) -> Transacting:
        """The one whose turn it is."""
        return self._transactors[self._place]
