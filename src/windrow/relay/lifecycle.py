"""The relay as its owner sees it: started, running, stopped; and the thread that runs one epoch after the other.

Invariant: a relay that runs publishes, or is about to try again. What passes (a lost executor, a server away) costs a
back-off; what does not pass (another relay of this name, a record that Kafka refuses) stops it, and `wait` raises it.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import Enum
from types import TracebackType
from typing import Final, Self
from uuid import UUID, uuid4

from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from windrow import errors
from windrow.kafka.clients import check_leader_topic, committed_positions, position_reader
from windrow.record import Committed
from windrow.relay.epoch import run_epoch
from windrow.relay.pace import backoff
from windrow.relay.registry import Registry
from windrow.relay.shard import ShardReport
from windrow.settings import Settings
from windrow.spark.session import JOB_FAILED, session, slots

log = logging.getLogger(__name__)

_GRACE: Final = 15.0
_AWAY: Final = (errors.Interrupted, errors.DatabaseUnreachable)


class State(Enum):
    """What a relay is up to."""

    CREATED = "created"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"


class Relay:
    """Publishes an outbox to Kafka. `with Relay(settings) as relay: relay.wait()`.

    It runs in the given Spark session, or in one that it makes from the settings and stops at the end.
    """

    def __init__(self, settings: Settings, spark: SparkSession | None = None) -> None:
        self.settings = settings
        self._registry = Registry(settings)
        self._own_spark = spark is None
        self._spark = spark
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"relay {settings.name}", daemon=True)
        self._epoch: UUID | None = None
        self._error: BaseException | None = None
        self._shards = 0
        self.epochs = 0
        """Epochs that were begun."""
        self.state = State.CREATED
        self.leader_id: UUID | None = None

    def start(self) -> None:
        """Check that everything is there, and begin; a mistake is raised here, before anything runs."""
        if self.state is not State.CREATED:
            raise RuntimeError(f"a relay starts once; this one is {self.state.value}")
        self._shards = self._registry.shards()
        check_leader_topic(self.settings, self._shards)
        if self._spark is None:
            self._spark = session(self.settings.spark, self.settings.name)
        self.state = State.RUNNING
        self._thread.start()

    def stop(self) -> None:
        """Let the page in hand be published, and end."""
        if self.state is State.CREATED:
            self.state = State.STOPPED
        if self.state is not State.RUNNING:
            return
        self.state = State.STOPPING
        self._stop.set()
        self._end_epoch()
        self._thread.join(_GRACE)
        if self._thread.is_alive() and self._spark is not None:
            log.warning("relay %s: its tasks do not end by themselves; cancelling them", self.settings.name)
            self._spark.interruptAll()
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
        """How many records the relay has published since it exists, as Kafka knows it."""
        return sum(at.published for at in self.positions().values())

    def positions(self) -> dict[int, Committed]:
        """How far each shard is, as Kafka knows it."""
        with closing(position_reader(self.settings)) as reader:
            return committed_positions(reader, self.settings, range(self._shards))

    def _run(self) -> None:
        failures = 0
        self.leader_id = uuid4()
        log.info("relay %s leads with %d shards, term %s", self.settings.name, self._shards, self.leader_id)
        try:
            while not self._stop.is_set():
                try:
                    self._run_epoch()
                    failures = 0
                except PythonException:
                    raise
                except (*JOB_FAILED, *_AWAY) as error:
                    failures += 1
                    if failures == 1:
                        log.warning("relay %s: %s; trying again", self.settings.name, _first_line(error))
                    self._stop.wait(backoff(failures, self.settings.limits.io_error_backoff))
        except (errors.WindrowError, PythonException) as error:
            self._error = error
            log.error("relay %s ends: %s", self.settings.name, _first_line(error))  # noqa: TRY400 - `wait` raises it
        finally:
            self.leader_id = None
            if self._own_spark and self._spark is not None:
                self._spark.stop()
            self.state = State.STOPPED
            log.info("relay %s stopped", self.settings.name)

    def _run_epoch(self) -> None:
        spark = self._spark
        if spark is None:
            raise AssertionError("started without Spark")
        self._epoch = uuid4()
        self._registry.open_epoch(self._epoch)
        self.epochs += 1
        if self._stop.is_set():  # `stop` may have closed the epoch before this one
            return
        tasks = slots(spark) or self._shards
        reports = run_epoch(spark, self.settings, self._epoch, self._shards, tasks)
        self._save_positions()
        for report in reports:
            log.debug("relay %s: %s", self.settings.name, report)
            self._judge(report)

    def _judge(self, report: ShardReport) -> None:
        if report.ending == "failed":
            kind, _, message = report.error.partition(": ")
            raise getattr(errors, kind)(message)
        if report.ending == "superseded" and not self._stop.is_set():
            raise errors.RelayFenced(
                f"another relay named {self.settings.name} has taken over: give each its own name, or run one"
            )

    def _save_positions(self) -> None:
        """Not needed for the next epoch, so a server that is away is no reason to end."""
        with self._warning():
            self._registry.save(self.positions())

    def _end_epoch(self) -> None:
        """Tell the tasks to end; where the database is away they are cancelled instead."""
        if self._epoch is not None:
            with self._warning():
                self._registry.close_epoch(self._epoch)

    @contextmanager
    def _warning(self) -> Iterator[None]:
        try:
            yield
        except _AWAY as error:
            log.warning("relay %s: %s", self.settings.name, _first_line(error))


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
