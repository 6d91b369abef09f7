"""The tracker as its owner sees it: what it does while it leads.

Of several trackers of the same topics one leads, elected over a Kafka consumer group, and the others stand by. The same
group keeps the offsets of the markers topic, and transactions show its generation: a tracker that was paused, or cut
off, and believes to lead, can write nothing. A new generation, or executors that come or go, end the epoch; the next
begins where it stood.
"""

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID, uuid4

from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from windrow import errors
from windrow.election.led import Led
from windrow.election.mandate import Term
from windrow.election.neli import Neli
from windrow.pace import backoff
from windrow.queue.duty import DutyReport
from windrow.queue.epoch import close_epoch, run_epoch, warm_up
from windrow.queue.settings import QueueSettings, TrackerSettings
from windrow.queue.topics import check_topics
from windrow.spark.away import AWAY, first_line
from windrow.spark.session import JOB_FAILED, group_jobs, slots

log = logging.getLogger(__name__)

_LOOK_EVERY: Final = 0.02
_COUNT_SLOTS_EVERY: Final = 1.0
_SETTLED: Final = 3
_PAUSE: Final = timedelta(milliseconds=500)


@dataclass(frozen=True, slots=True)
class _Candidacy:
    """What the election needs to know."""

    base_kafka_config: Mapping[str, str]
    name: str
    leader_topic: str
    leader_group_id: str
    limits: TrackerSettings


class Tracker(Led):
    """Redelivers what nobody acknowledged. `with Tracker(settings) as tracker: tracker.wait()`.

    It runs in the given Spark session, or in one that it makes from the settings and stops at the end.
    """

    def __init__(self, settings: QueueSettings, spark: SparkSession | None = None) -> None:
        title = f"tracker of {settings.message_topic}"
        candidacy = _Candidacy(
            settings.base_kafka_config,
            title,
            settings.leader_topic,
            settings.tracker_group,
            settings.redelivery_tracker,
        )
        super().__init__(title, Neli(candidacy), _PAUSE, settings.spark, spark)
        self.settings = settings
        self.epochs = 0
        """Epochs that this tracker has begun."""

    def _check_servers(self) -> None:
        check_topics(self.settings)

    def _warm_up(self) -> None:
        warm_up(self._session)

    def _lead(self, term: Term) -> None:
        with ThreadPoolExecutor(1, "epochs", group_jobs, (self._session, self._jobs)) as jobs:
            self._run_epochs(term, jobs)

    def _run_epochs(self, term: Term, jobs: Executor) -> None:
        """Epoch after epoch, until the term is over."""
        log.info("%s leads: %s", self._title, term.id)
        failures = 0
        while current := self._current(term):
            try:
                for report in self._run_epoch(current, jobs):
                    log.debug("%s: %s", self._title, report)
                failures = 0
            except PythonException:
                raise
            except (*JOB_FAILED, *AWAY, errors.KafkaUnreachable) as error:
                failures += 1
                if failures == 1:
                    log.warning("%s: %s; trying again", self._title, first_line(error))
                self._stop.wait(backoff(failures, _PAUSE))
        log.info("%s leads no more: %s", self._title, term.id)

    def _run_epoch(self, term: Term, jobs: Executor) -> list[DutyReport]:
        partitions = check_topics(self.settings)
        epoch, tasks = uuid4(), self._fitting_tasks(partitions)
        self.epochs += 1
        job = jobs.submit(run_epoch, self._session, self.settings, epoch, term.membership, partitions, tasks)
        self._watch_over(job, term, epoch, partitions, tasks)
        return job.result()

    def _watch_over(self, job: Future[list[DutyReport]], term: Term, epoch: UUID, partitions: int, tasks: int) -> None:
        """While the job runs: end it with the term or its generation, or when executors have come or gone for good."""
        closed, unfit, count_at = False, 0, time.monotonic() + _COUNT_SLOTS_EVERY
        while not job.done():
            if time.monotonic() >= count_at:
                count_at = time.monotonic() + _COUNT_SLOTS_EVERY
                unfit = 0 if self._fitting_tasks(partitions) == tasks else unfit + 1
            current = self._current(term)
            if not closed and (current is None or current.membership != term.membership or unfit >= _SETTLED):
                if current and current.membership != term.membership:
                    log.info("%s goes on in a new generation of the group: %s", self._title, term.id)
                with self._patience():
                    close_epoch(self.settings, epoch, partitions)
                    closed = True
            time.sleep(_LOOK_EVERY)

    def _fitting_tasks(self, partitions: int) -> int:
        """One a partition, or as many as Spark runs at once: a resident task that has no slot would wait for ever."""
        free = slots(self._session)
        return partitions if free is None else min(max(free, 1), partitions)
