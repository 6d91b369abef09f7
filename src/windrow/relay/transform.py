"""Messages through a query on the way: page by page, each a Spark job that reads it, transforms it and publishes it.

The loop of a shard runs on the driver: it plans how far the next page goes, and a job with a single last task publishes
what the query makes of it, in one transaction with the shard's position. Whatever the query does in between, its
result belongs to that page and to that shard, in the order of the ids.

Invariant: the relay's own. A page's result is in Kafka if and only if its position is. A job that failed, or whose
outcome is unknown, is planned anew from the committed position; no checkpoint is needed.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Final
from uuid import UUID

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession

from windrow.capture.position import Position
from windrow.capture.protocol import Page
from windrow.capture.shards import predicate
from windrow.capture.span import SPARK_SCHEMA, Reach, SpanCapture
from windrow.database.layouts import OWN
from windrow.errors import (
    DatabaseUnreachable,
    Interrupted,
    RelayFenced,
    SettingsInvalid,
    TransformInvalid,
    WindrowError,
)
from windrow.observe.provider import flush
from windrow.pace import backoff, poll_delay
from windrow.publish.dead_letter import DeadLetters
from windrow.publish.rows import check_columns, records
from windrow.publish.transaction import TransactionalPublisher
from windrow.record import Shard
from windrow.relay.aside import Aside, CapturedBatch
from windrow.relay.epoch import REPORT, REPORT_SCHEMA
from windrow.relay.in_flight import InFlight, telling
from windrow.relay.seat import Seat
from windrow.relay.shard import Ending, ShardLoop, ShardReport
from windrow.relay.tally import Tally
from windrow.settings import Settings
from windrow.spark.session import JOB_FAILED, group_jobs

log = logging.getLogger(__name__)

VIEW: Final = "outbox"
_NOT_OFTENER_THAN: Final = timedelta(milliseconds=250)
_DATA_ERRORS: Final = "22"
_PASSING: Final[dict[str, type[WindrowError]]] = {
    each.__name__: each for each in (Interrupted, DatabaseUnreachable, RelayFenced)
}
_naming = threading.Lock()
"""Between naming the view and reading the query that refers to it: a session may serve several shards and relays."""


class _Superseded(RelayFenced):
    """Another epoch has begun."""


def check_transform(spark: SparkSession, settings: Settings) -> None:
    """Raise unless the query can be run and returns what can be published."""
    nothing = spark.createDataFrame([], SPARK_SCHEMA)
    try:
        columns = _transformed(spark, nothing, settings.transform).dtypes
    except (AnalysisException, ParseException) as error:
        raise TransformInvalid(
            f"transform: {_first_line(error)}\n"
            f"Correct the query. It reads from {VIEW}, which has the columns {SPARK_SCHEMA}."
        ) from error
    try:
        check_columns(dict(columns), "id")
    except SettingsInvalid as error:
        raise TransformInvalid("\n".join(f"transform: {mistake}" for mistake in error.mistakes)) from error


def run_transformed(  # noqa: PLR0913, PLR0917 - all that makes an epoch
    spark: SparkSession, settings: Settings, epoch: UUID, shards: int, group: str, target: str | None = None
) -> list[ShardReport]:
    """Run an epoch of such jobs, all shards side by side, and return what each reports; with a target, it ends when all
    stand there, otherwise when one ends.
    """
    over = threading.Event()
    with ThreadPoolExecutor(shards, "transform", group_jobs, (spark, group)) as threads:
        loops = [TransformLoop(spark, settings, Shard(index, shards), epoch, over, target) for index in range(shards)]
        return list(threads.map(TransformLoop.run, loops))


@dataclass(frozen=True, slots=True)
class _Plan:
    """One page: from where to where, and for whom."""

    settings: Settings
    shard: Shard
    epoch: UUID
    committed: str | None
    """The shard's position as Kafka has it; None where it has none yet."""
    start: Position
    end: Position

    def page(self, batches: Iterator[pa.RecordBatch]) -> Page:
        window = replace(self.start, hi=self.end.hi or self.end.lo)
        found = [record for batch in batches for record in records(batch)]
        return Page(found, self.end, self.epoch, lambda last: replace(window, after=last), more=False, release=0)


class TransformLoop:
    """One shard in one epoch, on the driver."""

    def __init__(  # noqa: PLR0913, PLR0917 - as above
        self,
        spark: SparkSession,
        settings: Settings,
        shard: Shard,
        epoch: UUID,
        over: threading.Event,
        target: str | None,
    ) -> None:
        self._spark, self._settings, self._shard, self._epoch, self._over = spark, settings, shard, epoch, over
        self._target = Position.decode(target) if target else None
        self._released = 0
        self._ends_at = time.monotonic() + settings.epoch.total_seconds()
        self._records = self._transactions = self._dead_lettered = self._failures = 0
        self._failure = ""
        self._commit_idle_at = 0.0
        self._tally = Tally()

    def run(self) -> ShardReport:
        try:
            with telling(self._settings, self._shard, InFlight(), self._tally):
                return self._run()
        finally:
            if self._target is None:
                self._over.set()

    def _run(self) -> ShardReport:
        while not self._is_over():
            try:
                committed = self._committed()
                with closing(SpanCapture.at(self._settings, self._shard, committed)) as capture:
                    return self._pump(capture, committed)
            except _Superseded:
                return self._report("superseded")
            except tuple(_PASSING.values()) as error:
                self._wait_after(error)
            except PythonException as error:
                if not _passes(error):
                    raise
                self._wait_after(error)
            except JOB_FAILED as error:
                if _is_the_querys_fault(error):
                    return self._report("failed", f"TransformInvalid: transform: {_first_line(error)}")
                self._wait_after(error)
            except WindrowError as error:
                return self._report("failed", f"{error.known_as()}: {error}")
        return self._report("time")

    def _pump(self, capture: SpanCapture, committed: str | None) -> ShardReport:
        limits, position = self._settings.limits, capture.position
        last_message = time.monotonic()
        while not self._is_over():
            control = capture.control()
            if control.epoch != self._epoch:
                return self._report("superseded")
            if position == self._target:
                return self._report("drained")
            self._write_back(control.release)
            within = self._target.lo if self._target else None
            reach = capture.reach(position, limits.records_at_once, limits.page_bytes, within)
            if reach.records or self._is_worth_a_commit(position, reach):
                began, written = time.monotonic(), capture.written(position, reach.end) if reach.records else []
                report = self._run_job(_Plan(self._settings, self._shard, self._epoch, committed, position, reach.end))
                if report.ending == "failed":
                    return self._report("failed", report.error)
                position, committed = reach.end, reach.end.encode()
                self._records += report.records
                self._transactions += 1
                self._dead_lettered += report.dead_lettered
                self._tally.count("captured", reach.records)
                self._tally.count("dead_lettered", report.dead_lettered)
                self._tally.committed(report.records, time.monotonic() - began)
                self._tally.arrived(written, time.time())
                self._failures, self._failure = 0, ""
                last_message = time.monotonic()
            else:
                idle = time.monotonic() - last_message
                time.sleep(poll_delay(idle, limits.mark_backoff, max(limits.max_mark_backoff, _NOT_OFTENER_THAN)))
        return self._report("time")

    def _run_job(self, plan: _Plan) -> ShardReport:
        one = self._spark.range(0, 1, 1, 1)
        rows = one.mapInArrow(_read(plan), SPARK_SCHEMA)
        result = _transformed(self._spark, rows, self._settings.transform).coalesce(1).sortWithinPartitions("id")
        reports = result.mapInArrow(_publish(plan), REPORT).collect()
        if not reports:  # Spark has seen that the result is empty, and run no task for it
            reports = one.mapInArrow(_publish_nothing(plan), REPORT).collect()
        report = ShardReport(**reports[0].asDict())
        kind, _, message = report.error.partition(": ")
        if kind in _PASSING:
            raise _PASSING[kind](message)
        return report

    def _committed(self) -> str | None:
        """Where the shard stands, once nobody else can move it any more."""
        with _opened(self._settings, self._shard, self._epoch) as (_, publisher):
            return _standing(publisher)

    def _is_worth_a_commit(self, position: Position, reach: Reach) -> bool:
        """Now and then, so that an idle shard does not hold back the purge."""
        if reach.end == position or (time.monotonic() < self._commit_idle_at and reach.end != self._target):
            return False
        self._commit_idle_at = time.monotonic() + self._settings.purge.interval.total_seconds()
        return True

    def _write_back(self, release: int) -> None:
        """Write the shard's released dead letters to the outbox anew: the query has to see them once more."""
        if release > self._released:
            DeadLetters(self._settings).write_back(predicate(self._shard, OWN))
            self._released = release

    def _wait_after(self, error: Exception) -> None:
        self._failures += 1
        self._tally.count("fencings" if isinstance(error, RelayFenced) else "interruptions")
        said = _first_line(error)
        if not isinstance(error, RelayFenced) and said != self._failure:  # what lasts is said once
            self._failure = said
            log.warning("relay %s, shard %d: %s; trying again", self._settings.name, self._shard.index, said)
        delay = backoff(self._failures, self._settings.limits.io_error_backoff)
        self._over.wait(max(0.0, min(delay, self._ends_at - time.monotonic())))

    def _is_over(self) -> bool:
        return self._over.is_set() or time.monotonic() >= self._ends_at

    def _report(self, ending: Ending, error: str = "") -> ShardReport:
        return ShardReport(self._shard.index, ending, self._records, self._transactions, self._dead_lettered, error)


def _transformed(spark: SparkSession, rows: DataFrame, query: str) -> DataFrame:
    with _naming:
        rows.createOrReplaceTempView(VIEW)
        return spark.sql(query)


def _read(plan: _Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            with closing(SpanCapture.at(plan.settings, plan.shard, plan.committed)) as capture:
                yield from capture.read(plan.start, plan.end)

    return read


def _publish(plan: _Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        report = _publish_page(plan, plan.page(batches))
        flush(plan.settings.tracing)
        yield pa.RecordBatch.from_pylist([asdict(report)], schema=REPORT_SCHEMA)

    return publish


def _publish_nothing(plan: _Plan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def publish(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from _publish(plan)(iter(()))

    return publish


@contextmanager
def _opened(settings: Settings, shard: Shard, epoch: UUID) -> Iterator[tuple[Seat, TransactionalPublisher]]:
    """In the shard's seat, with a publisher that has ended what others had begun."""
    with Seat(settings, shard, epoch) as seat, closing(TransactionalPublisher(settings, shard)) as publisher:
        seat.take()
        turn = seat.turn()
        if turn.epoch != epoch:
            raise _Superseded("another epoch has begun")
        publisher.open(turn.membership, turn.saved)
        yield seat, publisher


def _standing(publisher: TransactionalPublisher) -> str | None:
    return publisher.committed.position if publisher.committed else None


def _publish_page(plan: _Plan, page: Page) -> ShardReport:
    """Publish a page, unless the task that this one repeats has done so already."""
    try:
        with _opened(plan.settings, plan.shard, plan.epoch) as (seat, publisher):
            standing = _standing(publisher)
            if standing == plan.end.encode():
                return ShardReport(plan.shard.index, "time", 0, 0, 0)
            if standing != plan.committed:
                raise RelayFenced("the shard has moved on since this page was planned")
            aside = Aside(plan.settings, plan.shard, publisher, seat.connection)
            aside.settle()
            loop = ShardLoop(plan.settings, plan.shard, plan.epoch)
            loop.publish(publisher, CapturedBatch(page, aside), page.records, page.position)
            return ShardReport(plan.shard.index, "time", len(page.records), 1, loop.dead_lettered)
    except _Superseded as error:
        return ShardReport(plan.shard.index, "superseded", 0, 0, 0, f"{RelayFenced.__name__}: {error}")
    except WindrowError as error:
        return ShardReport(plan.shard.index, "failed", 0, 0, 0, f"{error.known_as()}: {error}")


def _is_the_querys_fault(error: BaseException) -> bool:
    """Whether the query failed on what a message holds (a cast, a division): trying again would not help."""
    state = error.getSqlState() if isinstance(error, PySparkException) else None
    return bool(state and state.startswith(_DATA_ERRORS))


def _passes(error: PythonException) -> bool:
    """Whether reading broke off in a task for a reason that passes."""
    return any(f"{each.__module__}.{name}: " in str(error) for name, each in _PASSING.items())


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]
