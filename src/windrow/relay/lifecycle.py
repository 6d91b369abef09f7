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
from contextlib import closing, contextmanager
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
from windrow.relay.epoch import run_epoch, warm_up
from windrow.relay.events import Event, LeaderAcquired, LeaderFenced, LeaderRefreshed, LeaderRevoked
from windrow.relay.pace import backoff
from windrow.relay.purge import Purger
from windrow.relay.registry import Registry
from windrow.relay.shard import ShardReport
from windrow.relay.transform import check_transform, run_transformed
from windrow.settings import Settings
from windrow.spark.session import JOB_FAILED, cancel, group_jobs, session, slots

log = logging.getLogger(__name__)

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
        self._shards = 0
        self._jobs = f"windrow {settings.name} {uuid4()}"
        self._election = Neli(settings)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"relay {settings.name}", daemon=True)
        self._error: BaseException | None = None

    @property
    def leader_id(self) -> UUID | None:
        """The present term's id; None while another relay leads."""
        term = self._election.term
        return term.id if term else None

    @property
    def is_leader(self) -> bool:
        return self.leader_id is not None

    def start(self) -> None:
        """Check that everything is there, and begin; a mistake is raised here, before anything runs."""
        if self.state is not State.CREATED:
            raise RuntimeError(f"a relay starts once; this one is {self.state.value}")
        self._shards = self._registry.shards()
        check_own_topics(self.settings, self._shards)
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
            return committed_positions(reader, self.settings, range(self._shards))

    @property
    def _session(self) -> SparkSession:
        if self._spark is None:
            raise AssertionError("not started")
        return self._spark

    def _run(self) -> None:
        try:
            grouped = (group_jobs, (self._session, self._jobs))
            with self._election, ThreadPoolExecutor(1, "epochs", *grouped) as jobs:
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
            with self._purging():
                self._run_epochs(term, jobs)
        finally:
            self._tell(LeaderRevoked(term.id))

    def _run_epochs(self, term: Term, jobs: ThreadPoolExecutor) -> None:
        failures = 0
        while not self._stop.is_set() and (current := self._election.term) and current.id == term.id:
            try:
                self._run_epoch(current, jobs)
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
            purger, complained = Purger(self.settings), ""
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

    def _run_epoch(self, term: Term, jobs: ThreadPoolExecutor) -> None:
        epoch = uuid4()
        self._registry.open_epoch(epoch, term.id, term.membership)
        self.epochs += 1
        tasks = self._fitting_tasks()
        if self.settings.transform:
            job = jobs.submit(run_transformed, self._session, self.settings, epoch, self._shards, self._jobs)
        else:
            job = jobs.submit(run_epoch, self._session, self.settings, epoch, self._shards, tasks)
        ended = self._watch(job, epoch, term, tasks)
        for report in job.result():
            self._judge(report, term, ended=ended)

    def _fitting_tasks(self) -> int:
        """One a shard, or as many as Spark runs at once: a resident task that has no slot would wait for ever."""
        free = slots(self._session)
        return self._shards if free is None else min(max(free, 1), self._shards)

    def _watch(self, job: Future[list[ShardReport]], epoch: UUID, term: Term, tasks: int) -> bool:
        """While the job runs: give its tasks the group's new generations, and end them when the term is over, or when
        executors have come or gone for good; whether they were ended.
        """
        ending, unfit, count_at = False, 0, time.monotonic() + _COUNT_SLOTS_EVERY
        while not job.done():
            current = self._election.term
            if time.monotonic() >= count_at:
                count_at = time.monotonic() + _COUNT_SLOTS_EVERY
                unfit = 0 if self._fitting_tasks() == tasks else unfit + 1
            over = self._stop.is_set() or current is None or current.id != term.id
            if (over or unfit >= _SETTLED) and not ending:
                ending = True
                with self._warning():
                    self._registry.close_epoch(epoch)
            elif current and not over and current.membership != term.membership:
                with self._warning():
                    self._registry.renew_epoch(epoch, current.membership)
                    term = current
                    self._tell(LeaderRefreshed(term.id))
            time.sleep(_LOOK_EVERY)
        return ending

    def _judge(self, report: ShardReport, term: Term, *, ended: bool) -> None:
        log.debug("relay %s: %s", self.settings.name, report)
        if report.ending == "failed":
            kind, _, message = report.error.partition(": ")
            raise getattr(errors, kind)(message)
        current = self._election.term
        if report.ending == "superseded" and not ended and current and current.id == term.id:
            self._tell(LeaderFenced(term.id))
            self._election.resign(term.id)

    def _tell(self, event: Event) -> None:
        log.info("relay %s: %s %s", self.settings.name, type(event).__name__, event.leader_id)
        if self._on_event:
            try:
                self._on_event(event)
            except Exception:  # the owner's own mistake must not end the relay
                log.exception("relay %s: the event handler failed", self.settings.name)

    @contextmanager
    def _warning(self) -> Iterator[None]:
        """A server that is away here is no reason to end."""
        try:
            yield
        except (*_AWAY, *JOB_FAILED) as error:
            log.warning("relay %s: %s", self.settings.name, _first_line(error))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
