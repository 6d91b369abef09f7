"""One term of leading: epochs, each relieved by its heir, until the term or the relay is over.

An epoch that fails is begun anew after a pause. One that drains, so that the number of shards can change, has no heir,
nor has one that runs messages through a query: the next begins when it has ended.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID, uuid4

from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from windrow import errors
from windrow.beside import Beside
from windrow.election.mandate import Term
from windrow.election.protocol import Election
from windrow.kafka.clients import committed_positions, position_reader
from windrow.pace import backoff
from windrow.record import Committed
from windrow.relay import reshard
from windrow.relay.epoch import run_epoch
from windrow.relay.events import Event, LeaderAcquired, LeaderFenced, LeaderRefreshed, LeaderRevoked
from windrow.relay.meter import Meter
from windrow.relay.purge import Purger
from windrow.relay.registry import Registry
from windrow.relay.reshard import Resharding
from windrow.relay.shard import ShardReport
from windrow.relay.transform import run_transformed
from windrow.settings import Settings
from windrow.spark.away import AWAY, Patience, first_line
from windrow.spark.session import JOB_FAILED, group_jobs, slots

log = logging.getLogger(__name__)

_AT_ONCE: Final = 2
_LOOK_EVERY: Final = 0.02
_COUNT_SLOTS_EVERY: Final = 1.0
_END_WITHIN: Final = 0.5
_SETTLED: Final = 3


def positions(settings: Settings) -> dict[int, Committed]:
    """How far each shard of a relay is, as Kafka knows it."""
    with closing(position_reader(settings)) as reader:
        return committed_positions(reader, settings, range(Registry(settings).shards()))


@dataclass(frozen=True, slots=True)
class Desk:
    """What a relay leads with, in this term and the next."""

    settings: Settings
    spark: SparkSession
    group: str
    """The group of its Spark jobs."""
    election: Election
    stop: threading.Event
    tell: Callable[[Event], None]
    """Tells the owner."""
    listening: bool
    """Whether there is an owner who wants to be told."""
    patience: Patience


@dataclass(frozen=True, slots=True)
class _Epoch:
    """An epoch's job, and the moment from which an heir is to relieve it."""

    id: UUID
    shards: int
    tasks: int
    job: Future[list[ShardReport]]
    relieve_at: float
    resharding: Resharding | None = None
    """The change of the number of shards that this epoch drains for."""


class Leadership:
    """One term, from its beginning to its end."""

    def __init__(self, desk: Desk, term: Term) -> None:
        self.epochs = 0
        """Epochs that it has begun."""
        self.purged = 0
        """Rows that it has deleted."""
        self.deposed = 0
        """Times that it found another leading in its place."""
        self._desk, self._term = desk, term
        self._in_term = {"term": term.id}
        self._settings, self._registry = desk.settings, Registry(desk.settings)
        self._meter = Meter(desk.settings, term.id) if desk.listening else None
        self._membership = b""
        """What the tasks show Kafka, as the database has it."""

    def lead(self) -> None:
        grouped = (group_jobs, (self._desk.spark, self._desk.group))
        self._desk.tell(LeaderAcquired(self._term.id))
        try:
            with (
                ThreadPoolExecutor(_AT_ONCE, "epochs", *grouped) as jobs,
                self._closing(),
                self._purging(),
                self._meter or nullcontext(),
            ):
                self._run_epochs(jobs)
        finally:
            self._desk.tell(LeaderRevoked(self._term.id))

    @contextmanager
    def _closing(self) -> Iterator[None]:
        """However it ends, no task goes on."""
        try:
            yield
        finally:
            with self._desk.patience():
                self._registry.close_epochs(self._term.id)

    def _run_epochs(self, jobs: ThreadPoolExecutor) -> None:
        failures = 0
        while current := self._current():
            try:
                epoch: _Epoch | None = self._first(current, jobs)
                while epoch:
                    epoch = self._see_out(epoch, jobs)
                    failures = 0
            except errors.RelayFenced:
                self._give_way()
            except PythonException:
                raise
            except (*JOB_FAILED, *AWAY) as error:
                failures += 1
                if failures == 1:
                    log.warning(
                        "relay %s: %s; trying again", self._settings.name, first_line(error), extra=self._in_term
                    )
                self._desk.stop.wait(backoff(failures, self._settings.limits.io_error_backoff))

    def _current(self) -> Term | None:
        """The term as it is now, maybe in a new generation of the group; None once it is over."""
        current = self._desk.election.term
        return current if current and current.id == self._term.id and not self._desk.stop.is_set() else None

    def _first(self, current: Term, jobs: ThreadPoolExecutor) -> _Epoch:
        """An epoch that relieves nobody."""
        epoch = uuid4()
        shards, wanted = self._registry.open_epoch(epoch, current)
        self._membership = current.membership
        if current.number is not None and self._settings.delivery == "exactly-once":
            reshard.fence(self._settings)
        if wanted is None:
            return self._begin(epoch, shards, jobs)
        return self._begin(epoch, shards, jobs, reshard.begin(self._settings, shards, wanted), relieve_after=math.inf)

    def _begin(
        self,
        epoch: UUID,
        shards: int,
        jobs: ThreadPoolExecutor,
        resharding: Resharding | None = None,
        relieve_after: float | None = None,
    ) -> _Epoch:
        self.epochs += 1
        target = resharding.target if resharding else None
        tasks = self._fitting_tasks(shards)
        if self._settings.transform:
            relieve_after = math.inf
            job = jobs.submit(
                run_transformed, self._desk.spark, self._settings, epoch, shards, self._desk.group, target
            )
        else:
            job = jobs.submit(run_epoch, self._desk.spark, self._settings, epoch, shards, tasks, target)
        lasts = self._settings.epoch.total_seconds() if relieve_after is None else relieve_after
        return _Epoch(epoch, shards, tasks, job, time.monotonic() + lasts, resharding)

    def _fitting_tasks(self, shards: int) -> int:
        """One a shard, or as many as Spark runs at once: a resident task that has no slot would wait for ever."""
        free = slots(self._desk.spark)
        return shards if free is None else min(max(free, 1), shards)

    def _see_out(self, epoch: _Epoch, jobs: ThreadPoolExecutor) -> _Epoch | None:
        """Be there until an epoch's job has ended; returns the heir that has relieved it."""
        heir = self._watch(epoch, jobs)
        try:
            reports = epoch.job.result()
        except JOB_FAILED as error:
            if heir is None or isinstance(error, PythonException):
                raise
            log.warning(
                "relay %s: %s; the next epoch goes on", self._settings.name, first_line(error), extra=self._in_term
            )
        else:
            for report in reports:
                self._judge(report, relieved=heir is not None)
            if epoch.resharding and all(report.ending == "drained" for report in reports):
                epoch.resharding.finish(epoch.id, self._membership)
        return heir

    def _watch(self, epoch: _Epoch, jobs: ThreadPoolExecutor) -> _Epoch | None:
        """While the job runs: bring up its heir in time, pass on the group's new generations; end it with the term, or
        when executors have come or gone for good.
        """
        heir, closed, unfit, count_at = None, False, 0, time.monotonic() + _COUNT_SLOTS_EVERY
        while not epoch.job.done():
            current = self._current()
            if time.monotonic() >= count_at:
                count_at = time.monotonic() + _COUNT_SLOTS_EVERY
                unfit = 0 if self._fitting_tasks(epoch.shards) == epoch.tasks else unfit + 1
            with self._desk.patience():
                if (current is None or unfit >= _SETTLED) and not closed:
                    self._registry.close_epochs(self._term.id)
                    closed = True
                elif current and current.membership != self._membership:
                    self._registry.renew_membership(self._term.id, current.membership)
                    self._membership = current.membership
                    self._desk.tell(LeaderRefreshed(self._term.id))
                elif current and not (heir or closed) and time.monotonic() > epoch.relieve_at:
                    successor = uuid4()
                    self._registry.name_heir(epoch.id, successor)
                    heir = self._begin(successor, epoch.shards, jobs)
            if self._meter and (reading := self._meter.take()):
                self._desk.tell(reading)
            time.sleep(_LOOK_EVERY)
        return heir

    def _judge(self, report: ShardReport, *, relieved: bool) -> None:
        log.debug("relay %s: %s", self._settings.name, report)
        if report.ending == "failed":
            kind, _, message = report.error.partition(": ")
            raise getattr(errors, kind)(message)
        if report.ending == "superseded" and not relieved and self._current() and self._registry.epoch():
            self._give_way()

    def _give_way(self) -> None:
        """Another leads, though the election has not told so yet."""
        self.deposed += 1
        self._desk.tell(LeaderFenced(self._term.id))
        self._desk.election.resign(self._term.id)

    @contextmanager
    def _purging(self) -> Iterator[None]:
        """Meanwhile, now and then: save the positions, and delete what all relays have published.

        The end of the term does not wait for Kafka to tell the positions: it tells none while a transaction is open
        that was left behind, and that ends with the next term.
        """
        over = threading.Event()
        purge = partial(self._purge, over)
        with Beside(f"purge of {self._settings.name}", purge, over=over, end_within=_END_WITHIN):
            yield

    def _purge(self, over: threading.Event) -> None:
        purger, complained = Purger(self._settings, over.wait, self._term.number), ""
        while not over.wait(self._settings.purge.interval.total_seconds()):
            try:
                told = positions(self._settings)
                if over.is_set():
                    break
                self._registry.save(told)
                for deleted in purger.purge():
                    self.purged += deleted
                    log.debug("relay %s: purged %d rows", self._settings.name, deleted)
                    if over.is_set():
                        break
            except AWAY:
                continue  # the shards report it, which need it more
            except errors.WindrowError as error:
                if complained != str(error):
                    complained = str(error)
                    log.warning("relay %s: not purged: %s", self._settings.name, first_line(error), extra=self._in_term)
