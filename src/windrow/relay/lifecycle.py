"""The relay as its owner sees it: started, leading or standing by, stopped; and the thread that does it.

Invariant: a relay that runs publishes, stands by, or is about to try again. What passes (a lost executor, a server
away, another relay's turn) costs a pause; what does not pass (a record that Kafka refuses, a foreign position) stops
it, and `wait` raises it.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, Self
from uuid import UUID, uuid4

from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from windrow import errors
from windrow.election.mandate import Term
from windrow.election.neli import Neli
from windrow.kafka.clients import check_own_topics, committed_positions, position_reader
from windrow.record import Committed
from windrow.relay import reshard
from windrow.relay.epoch import run_epoch, warm_up
from windrow.relay.events import Event, LeaderAcquired, LeaderFenced, LeaderRefreshed, LeaderRevoked, MeterRead
from windrow.relay.meter import Meter, in_flight
from windrow.relay.pace import backoff
from windrow.relay.purge import Purger
from windrow.relay.registry import Registry
from windrow.relay.reshard import Resharding
from windrow.relay.shard import ShardReport
from windrow.relay.transform import check_transform, run_transformed
from windrow.settings import Settings
from windrow.spark.session import JOB_FAILED, cancel, group_jobs, session, slots

log = logging.getLogger(__name__)

_EPOCHS_AT_ONCE: Final = 2
_GRACE: Final = 15.0
_LOOK_EVERY: Final = 0.02
_SOON: Final = 3.0
_STAY_WARM: Final = 30.0
_COUNT_SLOTS_EVERY: Final = 1.0
_SETTLED: Final = 3
_AWAY: Final = (errors.Interrupted, errors.DatabaseUnreachable)


class State(Enum):
    """What a relay is up to."""

    CREATED = "created"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Relay:
    """Publishes an outbox to Kafka. `with Relay(settings) as relay: relay.wait()`.

    Of several relays of one name, one leads and the others stand by. It runs in the given Spark session, or in one that
    it makes from the settings and stops at the end. `on_event` is called in the relay's own thread: be quick there.
    """

    def __init__(
        self, settings: Settings, spark: SparkSession | None = None, on_event: Callable[[Event], None] | None = None
    ) -> None:
        self.settings = settings
        self.state = State.CREATED
        self.epochs = 0
        """Epochs that this relay has begun."""
        self._on_event = on_event
        self._registry = Registry(settings)
        self._own_spark = spark is None
        self._spark = spark
        self._jobs = f"windrow {settings.name} {uuid4()}"
        self._election = Neli(settings)
        self._meter: Meter | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"relay {settings.name}", daemon=True)
        self._error: BaseException | None = None
        self._complaint = ""
        self._membership = b""
        """What the tasks show Kafka, as the database has it."""

    @property
    def leader_id(self) -> UUID | None:
        """The present term's id; None while another relay leads."""
        term = self._election.term
        return term.id if term else None

    @property
    def is_leader(self) -> bool:
        return self.leader_id is not None

    @property
    def in_flight_records(self) -> int:
        """Records that shards have read and not yet committed, as they told the database in the last seconds."""
        return in_flight(self.settings).records

    @property
    def in_flight_keys(self) -> int:
        """How many keys the records in flight have."""
        return in_flight(self.settings).keys

    def start(self) -> None:
        """Check that everything is there, and begin; a mistake is raised here, before anything runs."""
        if self.state is not State.CREATED:
            raise RuntimeError(f"a relay starts once; this one is {self.state.value}")
        check_own_topics(self.settings, self._registry.fit_shards())
        if self._spark is None:
            self._spark = session(self.settings.spark, self.settings.name)
        if self.settings.transform:
            check_transform(self._spark, self.settings)
        self.state = State.RUNNING
        self._thread.start()

    def stop(self) -> None:
        """Let the page in hand be published, make way for another relay, and end."""
        if self.state is State.CREATED:
            self.state = State.STOPPED
        if self.state is not State.RUNNING:
            return
        self.state = State.STOPPING
        self._stop.set()
        self._thread.join(_GRACE)
        if self._thread.is_alive():
            log.warning("relay %s: its tasks do not end by themselves; cancelling them", self.settings.name)
            cancel(self._session, self._jobs)
            self._thread.join(_GRACE)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; False if it has not come in time. Raises what stopped the relay, if not `stop`."""
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def published(self) -> int:
        """How many records relays of this name have published since there are any, as Kafka knows it."""
        return sum(at.published for at in self.positions().values())

    def positions(self) -> dict[int, Committed]:
        """How far each shard is, as Kafka knows it."""
        with closing(position_reader(self.settings)) as reader:
            return committed_positions(reader, self.settings, range(self._registry.shards()))

    @property
    def _session(self) -> SparkSession:
        if self._spark is None:
            raise AssertionError("not started")
        return self._spark

    def _run(self) -> None:
        try:
            grouped = (group_jobs, (self._session, self._jobs))
            with self._election, ThreadPoolExecutor(_EPOCHS_AT_ONCE, "epochs", *grouped) as jobs:
                while not self._stop.is_set() and self._election.running:
                    if term := self._election.term:
                        self._lead(term, jobs)
                    else:
                        self._stand_by()
            if not self._stop.is_set():
                raise errors.WindrowError("the election's thread has ended; its own error is in the log")  # noqa: TRY301
        except (errors.WindrowError, PythonException) as error:
            self._error = error
            log.error("relay %s ends: %s", self.settings.name, _first_line(error))  # noqa: TRY400 - `wait` raises it
        finally:
            if self.epochs:
                with self._warning():
                    self._registry.save(self.positions())
            if self._own_spark:
                self._session.stop()
            self.state = State.STOPPED
            log.info("relay %s stopped", self.settings.name)

    def _stand_by(self) -> None:
        """Wait for the mandate; if it does not come soon, with a Python worker warm, so that leading begins at once."""
        warm_at = time.monotonic() + _SOON
        while not (self._stop.is_set() or self._election.term) and self._election.running:
            if time.monotonic() >= warm_at:
                with self._warning():
                    warm_up(self._session)
                warm_at = time.monotonic() + _STAY_WARM
            self._stop.wait(_LOOK_EVERY)

    def _lead(self, term: Term, jobs: ThreadPoolExecutor) -> None:
        """Run one epoch after the other, until the term or the relay is over."""
        self._tell(LeaderAcquired(term.id))
        try:
            with self._purging(), self._metering(term):
                self._run_epochs(term, jobs)
        finally:
            with self._warning():
                self._registry.close_epochs(term.id)
            self._tell(LeaderRevoked(term.id))

    def _run_epochs(self, term: Term, jobs: ThreadPoolExecutor) -> None:
        failures = 0
        while current := self._current(term):
            try:
                first = uuid4()
                shards, wanted = self._registry.open_epoch(first, term.id, current.membership)
                self._membership = current.membership
                resharding = reshard.begin(self.settings, shards, wanted) if wanted else None
                epoch: _Epoch | None = self._begin(first, shards, jobs, resharding)
                while epoch:
                    epoch = self._see_out(epoch, term, jobs)
                    failures = 0
            except PythonException:
                raise
            except (*JOB_FAILED, *_AWAY) as error:
                failures += 1
                if failures == 1:
                    log.warning("relay %s: %s; trying again", self.settings.name, _first_line(error))
                self._stop.wait(backoff(failures, self.settings.limits.io_error_backoff))

    @contextmanager
    def _purging(self) -> Iterator[None]:
        """Meanwhile, now and then: save the positions, and delete what all relays have published."""
        over = threading.Event()

        def purge() -> None:
            purger, complained = Purger(self.settings, over.wait), ""
            while not over.wait(self.settings.purge.interval.total_seconds()):
                try:
                    self._registry.save(self.positions())
                    for deleted in purger.purge():
                        log.debug("relay %s: purged %d rows", self.settings.name, deleted)
                        if over.is_set():
                            break
                except _AWAY:
                    continue  # the shards report it, which need it more
                except errors.WindrowError as error:
                    if complained != str(error):
                        complained = str(error)
                        log.warning("relay %s: not purged: %s", self.settings.name, _first_line(error))

        thread = threading.Thread(target=purge, name=f"purge of {self.settings.name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    @contextmanager
    def _metering(self, term: Term) -> Iterator[None]:
        """Meanwhile, read the meter, if there is somebody to tell."""
        meter = Meter(self.settings, term.id) if self._on_event else None
        with meter or nullcontext():
            self._meter = meter
            try:
                yield
            finally:
                self._meter = None

    def _current(self, term: Term) -> Term | None:
        """The term as it is now, maybe in a new generation of the group; None once it is over."""
        current = self._election.term
        return current if current and current.id == term.id and not self._stop.is_set() else None

    def _begin(
        self, epoch: UUID, shards: int, jobs: ThreadPoolExecutor, resharding: Resharding | None = None
    ) -> "_Epoch":
        self.epochs += 1
        tasks = self._fitting_tasks(shards)
        target = resharding.target if resharding else None
        relieve_at = time.monotonic() + self.settings.epoch.total_seconds()
        if self.settings.transform:
            job = jobs.submit(run_transformed, self._session, self.settings, epoch, shards, self._jobs, target)
        else:
            job = jobs.submit(run_epoch, self._session, self.settings, epoch, shards, tasks, target)
        return _Epoch(epoch, shards, tasks, job, relieve_at, resharding)

    def _fitting_tasks(self, shards: int) -> int:
        """One a shard, or as many as Spark runs at once: a resident task that has no slot would wait for ever."""
        free = slots(self._session)
        return shards if free is None else min(max(free, 1), shards)

    def _see_out(self, epoch: "_Epoch", term: Term, jobs: ThreadPoolExecutor) -> "_Epoch | None":
        """Be there until an epoch's job has ended; returns the heir that has relieved it."""
        heir = self._watch(epoch, term, jobs)
        try:
            reports = epoch.job.result()
        except JOB_FAILED as error:
            if heir is None or isinstance(error, PythonException):
                raise
            log.warning("relay %s: %s; the next epoch goes on", self.settings.name, _first_line(error))
        else:
            for report in reports:
                self._judge(report, term, relieved=heir is not None)
            if epoch.resharding and all(report.ending == "drained" for report in reports):
                epoch.resharding.finish(epoch.id, self._membership)
        return heir

    def _watch(self, epoch: "_Epoch", term: Term, jobs: ThreadPoolExecutor) -> "_Epoch | None":
        """While the job runs: bring up its heir in time, pass on the group's new generations; end it with the term, or
        when executors have come or gone for good.
        """
        heir, closed, unfit, count_at = None, False, 0, time.monotonic() + _COUNT_SLOTS_EVERY
        while not epoch.job.done():
            current = self._current(term)
            if time.monotonic() >= count_at:
                count_at = time.monotonic() + _COUNT_SLOTS_EVERY
                unfit = 0 if self._fitting_tasks(epoch.shards) == epoch.tasks else unfit + 1
            with self._warning():
                if (current is None or unfit >= _SETTLED) and not closed:
                    self._registry.close_epochs(term.id)
                    closed = True
                elif current and current.membership != self._membership:
                    self._registry.renew_membership(term.id, current.membership)
                    self._membership = current.membership
                    self._tell(LeaderRefreshed(term.id))
                elif current and self._wants_heir(epoch) and not (heir or closed):
                    successor = uuid4()
                    self._registry.name_heir(epoch.id, successor)
                    heir = self._begin(successor, epoch.shards, jobs)
            if self._meter and (reading := self._meter.take()):
                self._tell(reading)
            time.sleep(_LOOK_EVERY)
        return heir

    def _wants_heir(self, epoch: "_Epoch") -> bool:
        """Whether its time has come. One that drains ends by itself, and so do queries, which start with every page."""
        return not (epoch.resharding or self.settings.transform) and time.monotonic() > epoch.relieve_at

    def _judge(self, report: ShardReport, term: Term, *, relieved: bool) -> None:
        log.debug("relay %s: %s", self.settings.name, report)
        if report.ending == "failed":
            kind, _, message = report.error.partition(": ")
            raise getattr(errors, kind)(message)
        if report.ending == "superseded" and not relieved and self._current(term) and not self._registry.epoch_ended():
            self._tell(LeaderFenced(term.id))
            self._election.resign(term.id)

    def _tell(self, event: Event) -> None:
        level = logging.DEBUG if isinstance(event, MeterRead) else logging.INFO
        log.log(level, "relay %s: %s %s", self.settings.name, type(event).__name__, event.leader_id)
        if self._on_event:
            try:
                self._on_event(event)
            except Exception:  # the owner's own mistake must not end the relay
                log.exception("relay %s: the event handler failed", self.settings.name)

    @contextmanager
    def _warning(self) -> Iterator[None]:
        """A server that is away here is no reason to end: it is said once, and tried again after a pause."""
        try:
            yield
        except (*_AWAY, *JOB_FAILED) as error:
            line = _first_line(error)
            if line != self._complaint:
                self._complaint = line
                log.warning("relay %s: %s", self.settings.name, line)
            self._stop.wait(self.settings.limits.io_error_backoff.total_seconds())


@dataclass(frozen=True, slots=True)
class _Epoch:
    """An epoch's job, and the moment from which an heir is to relieve it."""

    id: UUID
    shards: int
    tasks: int
    job: Future[list[ShardReport]]
    relieve_at: float
    resharding: Resharding | None
    """The change of the number of shards that this epoch drains for."""


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
