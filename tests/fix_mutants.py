"""Windrow's own protocol, broken on purpose, piece by piece; and lives of a shard's loop that end as a plan says.

A life runs in a thread of this process, without Spark. It is killed, or paused until a successor has taken over, at its
third commit in Kafka: right before it, right after it, or before its position is sent. (Once that is sent, nobody reads
the group's positions until the transaction is over: a successor would wait for the one that is paused.)
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID, uuid4

import psycopg
import pytest
from confluent_kafka import Consumer, TopicPartition
from psycopg.sql import SQL

from fix_pipeline import Pipeline, wait_for
from windrow.capture.position import Position
from windrow.capture.protocol import Page
from windrow.capture.snapshot import Control, SnapshotCapture
from windrow.election.mandate import Term
from windrow.kafka.clients import client_config
from windrow.kafka.statistics import Statistics
from windrow.publish.direct import DirectTransactor
from windrow.publish.transaction import Transacting, TransactionalPublisher
from windrow.record import Committed, Record, Shard
from windrow.relay.registry import Registry
from windrow.relay.shard import ShardLoop
from windrow.settings import Settings

Point = Literal["before offsets", "before commit", "after commit"]
Deed = Literal["kill", "pause"]


class Killed(BaseException):
    """The process is gone."""


class PositionOutside(TransactionalPublisher):
    """Commits the records, and then where it stands."""

    def _finish(self, committed: Committed) -> None:
        ours = self._transactor
        assert isinstance(ours, FatedTransactor)
        ours.flush()
        if ours.in_transaction:
            ours.end(commit=True)
        position = TopicPartition(self._settings.position_topic, self._shard, committed.published, committed.metadata)
        ours.send_offsets([position], self._membership)
        ours.flush()
        DirectTransactor.end(ours, commit=True)
        self.committed = committed


class GenerationUnchecked(TransactionalPublisher):
    """Shows Kafka nothing by which it could tell a leader that was deposed."""

    def open(self, membership: bytes, known: Committed | None) -> None:
        del membership
        super().open(self._reader.consumer_group_metadata(), known)


class IdsFresh(TransactionalPublisher):
    """Opens under a name of its own, so that its predecessor is not ended."""

    def _transacting(self, place: str, statistics: Statistics | None) -> Transacting:
        return super()._transacting(f"{place}.{uuid4().hex}", statistics)


class NobodyFenced(GenerationUnchecked, IdsFresh):
    """Both."""


class ByTransaction(SnapshotCapture):
    """Orders a page by its rows' transactions."""

    def _page(self, records: Sequence[Record], window: Position, control: Control, *, more: bool) -> Page:
        rows = self._connection.execute(
            self._tables.fill(SQL("SELECT id, tx::text::bigint FROM {outbox} WHERE id = ANY (%s)")),
            ([each.id for each in records],),
        ).fetchall()
        numbers: dict[int, int] = dict(rows)
        ordered = sorted(records, key=lambda each: (numbers.get(each.id, 0), each.id))
        return super()._page(ordered, window, control, more=more)


class PurgedEarly(SnapshotCapture):
    """Deletes rows when they are read."""

    def _page(self, records: Sequence[Record], window: Position, control: Control, *, more: bool) -> Page:
        with psycopg.connect(self._source, autocommit=True) as connection:
            connection.execute(
                self._tables.fill(SQL("DELETE FROM {outbox} WHERE id = ANY (%s)")),
                ([each.id for each in records],),
            )
        return super()._page(records, window, control, more=more)


@dataclass(frozen=True)
class Offset:
    """The id that was read last."""

    last: int

    def encode(self) -> str:
        return str(self.last)


class ByOffset(SnapshotCapture):
    """All above the highest id that was read."""

    _last = 0

    def start(self, committed: str | None) -> None:
        self._last = int(committed or 0)

    def next(self) -> Page:
        rows = self._connection.execute(
            self._tables.fill(
                SQL("SELECT {columns} FROM {outbox} WHERE id > %s ORDER BY id LIMIT %s"),
                columns=self._fragments["columns"],
            ),
            (self._last, self._limits.records_at_once),
        ).fetchall()
        records = [Record(*row) for row in rows]
        self._last = records[-1].id if records else self._last
        return Page(records, Offset(self._last), self.control().epoch, Offset, more=bool(records))


@dataclass
class Fate:
    """What happens to a life, and where: at the third time that it comes there."""

    point: Point | None = None
    deed: Deed = "kill"
    struck: threading.Event = field(default_factory=threading.Event)
    woken: threading.Event = field(default_factory=threading.Event)
    commits: int = 0
    _passed: int = 0

    def meet(self, point: Point) -> None:
        self.commits += point == "after commit"
        self._passed += point == self.point
        if point != self.point or self._passed != 3:
            return
        self.struck.set()
        if self.deed == "kill":
            raise Killed
        assert self.woken.wait(60)


class FatedTransactor(DirectTransactor):
    """One whose commits are where fate strikes."""

    fate: Fate

    def send_offsets(self, offsets: list[TopicPartition], membership: bytes) -> None:
        self.fate.meet("before offsets")
        super().send_offsets(offsets, membership)

    def end(self, *, commit: bool, within: float = 30.0) -> None:
        if commit:
            self.fate.meet("before commit")
        super().end(commit=commit, within=within)
        if commit:
            self.fate.meet("after commit")


@dataclass(frozen=True)
class Mutant:
    """The parts of the protocol that are put in place of ours."""

    publisher: type[TransactionalPublisher] = TransactionalPublisher
    capture: type[SnapshotCapture] = SnapshotCapture


class Lives:
    """A shard's lives, one after the other, each with a term and an epoch of its own."""

    def __init__(self, pipeline: Pipeline, mutant: Mutant, patch: pytest.MonkeyPatch) -> None:
        self._settings, self._mutant = pipeline.settings, mutant
        self._fates: dict[int, Fate] = {}
        self._threads: list[threading.Thread] = []
        self._consumer: Consumer | None = None
        patch.setattr("windrow.relay.shard.TransactionalPublisher", self._publisher)
        patch.setattr("windrow.publish.transaction.DirectTransactor", FatedTransactor)
        patch.setattr("windrow.relay.shard.capture_of", self._capture)

    def live(self, fate: Fate) -> None:
        """Begin a life, which deposes the one before it."""
        epoch = uuid4()
        term = Term(uuid4(), self._membership())
        Registry(self._settings).open_epoch(epoch, term)
        thread = threading.Thread(target=self._run, args=(epoch, fate), daemon=True)
        self._threads.append(thread)
        thread.start()

    def end(self, done: Callable[[], bool]) -> None:
        """End the last life once all is done, and see that none is left."""
        wait_for(done, "all to be published")
        Registry(self._settings).open_epoch(uuid4(), Term(uuid4(), b""))
        for each in self._threads:
            each.join(30)
            assert not each.is_alive()
        if self._consumer:
            self._consumer.close()

    def _run(self, epoch: UUID, fate: Fate) -> None:
        self._fates[threading.get_ident()] = fate
        with suppress(Killed):
            ShardLoop(self._settings, Shard(0, 1), epoch).run()

    def _publisher(self, settings: Settings, shard: Shard, _statistics: object) -> TransactionalPublisher:
        made = self._mutant.publisher(settings, shard)
        fate = self._fates[threading.get_ident()]
        for each in made._transactors:
            assert isinstance(each, FatedTransactor)
            each.fate = fate
        return made

    def _capture(self, settings: Settings, shard: Shard, *_: Any) -> SnapshotCapture:
        return self._mutant.capture(settings, shard)

    def _membership(self) -> bytes:
        """Of a member that has just joined the relay's group, which the one before has left."""
        if self._consumer:
            self._consumer.close()
        own = {"group.id": self._settings.leader_group_id, "enable.auto.commit": False}
        self._consumer = consumer = Consumer(client_config(self._settings, own))
        consumer.subscribe([self._settings.leader_topic])
        wait_for(lambda: consumer.poll(0.05) or consumer.assignment(), "a member")
        metadata: bytes = consumer.consumer_group_metadata()
        return metadata


def run_lives(lives: Lives, fates: Sequence[Fate]) -> None:
    """Each fate in turn; one that is paused wakes up when its successor has published something. The last lives on."""
    paused: Fate | None = None
    for fate in (*fates, Fate()):
        lives.live(fate)
        if paused:
            wait_for(lambda successor=fate: successor.commits >= 2, "the successor to publish")
            paused.woken.set()
        if fate.point:
            wait_for(fate.struck.is_set, "fate to strike")
        paused = fate if fate.deed == "pause" else None
