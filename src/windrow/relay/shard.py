"""The shard's loop: read a page, publish it in a transaction, repeat, until the epoch is over.

Runs inside a Spark task. Every way out is a `ShardReport`; a broken connection is no way out: the loop opens anew
from the committed position, as often as it takes. An epoch is over when the database names another one for the shard
(its heir's task is ready, the relay stops, or somebody else has taken over), when no heir has come in time, or when it
has come to the target that it was given.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final, Literal
from uuid import UUID

from windrow.capture.choice import capture_of
from windrow.capture.mark import MarkCapture
from windrow.capture.protocol import Capture, Page
from windrow.columns import times_of
from windrow.errors import DatabaseUnreachable, Interrupted, PublishFailed, RelayFenced, WindrowError
from windrow.kafka.statistics import Statistics
from windrow.pace import backoff, poll_delay
from windrow.publish.at_least_once import AtLeastOncePublisher
from windrow.publish.protocol import Publisher
from windrow.publish.transaction import TransactionalPublisher
from windrow.record import Committed, Progress, Record, Released, Shard, latest
from windrow.relay.aside import Aside, Batch, CapturedBatch, ReleasedBatch, poison_among
from windrow.relay.in_flight import InFlight, telling
from windrow.relay.seat import Seat, Turn
from windrow.relay.tally import Tally
from windrow.settings import Settings

log = logging.getLogger(__name__)

_AFTER_FENCE: Final = timedelta(milliseconds=5)
_HEIR_WITHIN: Final = timedelta(seconds=10)
_LISTEN_EVERY: Final = 1.0

Ending = Literal["time", "superseded", "failed", "drained"]


@dataclass(frozen=True, slots=True)
class ShardReport:
    """How a shard's part of an epoch ended, and what it published in it."""

    shard: int
    ending: Ending
    records: int
    transactions: int
    dead_lettered: int
    error: str = ""
    """The error's class and message where it failed, otherwise empty."""


def middle_of(ids: Sequence[int]) -> int:
    """Where to halve records, so that those of one id, which follow each other, stay together; 0 where that is
    impossible.
    """
    changes = [place for place in range(1, len(ids)) if ids[place] != ids[place - 1]]
    return min(changes, key=lambda place: abs(place - len(ids) // 2), default=0)


class _Over(Exception):
    """Not an error: the epoch has ended."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending: Ending = ending


class ShardLoop:
    """One shard in one epoch; with a target, until it stands at that position."""

    def __init__(self, settings: Settings, shard: Shard, epoch: UUID, target: str | None = None) -> None:
        self._settings, self._shard, self._epoch, self._target = settings, shard, epoch, target
        self._ends_at = time.monotonic() + (settings.epoch + _HEIR_WITHIN).total_seconds()
        self._records = self._transactions = self._failures = 0
        self._failure = ""
        self.dead_lettered = 0
        """Messages that it has put aside."""
        self._commit_idle_at = 0.0
        self._renewed = False
        self._in_flight, self._tally = InFlight(), Tally()
        self._listen_at = 0.0
        self._batch: Batch | None = None
        self._known: Committed | None = None
        """What was committed when we last had to do with Kafka."""

    def run(self) -> ShardReport:
        with telling(self._settings, self._shard, self._in_flight, self._tally):
            return self._run()

    def _run(self) -> ShardReport:
        while True:
            try:
                self._in_flight.dropped()
                with Seat(self._settings, self._shard, self._epoch) as seat, self._opened(seat) as opened:
                    self._pump(seat, *opened)
            except (Interrupted, DatabaseUnreachable, RelayFenced) as error:
                # Fenced: by a successor, whose epoch `_check` then sees, by a new generation, which the turn brings,
                # or by a transaction that timed out.
                if not self._wait_after(error):
                    return self._report("time")
            except _Over as over:
                return self._report(over.ending)
            except WindrowError as error:
                return self._report("failed", f"{error.known_as()}: {error}")

    def _pump(self, seat: Seat, capture: Capture, publisher: Publisher, aside: Aside) -> None:
        limits = self._settings.limits
        last_message = time.monotonic()
        with ThreadPoolExecutor(1) as thread:
            page = self._next(capture)
            while True:
                # Where more is waiting, it is read on while this page is being published.
                following = thread.submit(self._next, capture) if page.more and limits.reads_ahead else None
                if publisher.committed and page.release > publisher.committed.released:
                    self._release(seat, publisher, aside, page.release)
                if page.records:
                    self._publish_page(publisher, aside, page)
                    last_message = time.monotonic()
                elif self._target is not None and page.position.encode() == self._target:
                    publisher.publish([], page.position)
                    raise _Over("drained")
                elif not page.more:
                    self._commit_idle(publisher, page)
                    self._listen(publisher)
                    idle = time.monotonic() - last_message
                    capture.wait(poll_delay(idle, limits.mark_backoff, limits.max_mark_backoff))
                page = following.result() if following else self._next(capture)

    def _publish_page(self, publisher: Publisher, aside: Aside, page: Page) -> None:
        self.publish(publisher, CapturedBatch(page, aside), page.records, page.position)
        self._in_flight.committed()
        self._tally.arrived(times_of(page.records), time.time())
        self._count(len(page.records))

    def _release(self, seat: Seat, publisher: Publisher, aside: Aside, latest: int) -> None:
        """Publish what was released of the dead letters since the last time, before anything else of its keys."""
        upto = aside.gather(latest)
        while letters := aside.released(upto):
            self._check(seat.turn())
            batch = ReleasedBatch(letters, aside)
            self.publish(publisher, batch, batch.records, Released(letters[-1].release))
            self._count(len(letters))
            aside.forget_published()
        publisher.publish([], Released(upto))
        aside.know_blocked()

    def publish(
        self,
        publisher: Publisher,
        batch: Batch,
        records: Sequence[Record],
        progress: Progress | Released,
    ) -> None:
        """Publish the records, all of a batch or a part of it; around what Kafka refuses, unless that is to stop us."""
        free, self._batch = batch.free(records), batch
        began = time.monotonic()
        try:
            publisher.publish(free, progress)
            self._tally.committed(len(free), time.monotonic() - began)
        except PublishFailed as refusal:
            if batch.fresh and self._settings.poison == "stop":
                raise
            left = [each for each in free if each.id not in refusal.published]
            for part, until in self._around(batch, left, progress, refusal):
                self.publish(publisher, batch, part, until)

    def _around(
        self, batch: Batch, records: Sequence[Record], progress: Progress | Released, refusal: PublishFailed
    ) -> list[tuple[Sequence[Record], Progress | Released]]:
        """What to publish instead, in order: the records without the poison, put aside, or halves to find it."""
        if not refusal.whole_topic and (middle := middle_of([each.id for each in records])):
            return [(records[:middle], batch.upto(records[middle - 1].id)), (records[middle:], progress)]
        poison = poison_among(records, refusal, block_keys=self._settings.poison == "block-key")
        log.warning(
            "relay %s: %d messages to dead letters, from id %d on: %s",
            self._settings.name,
            len(poison),
            poison[0].id,
            refusal,
        )
        batch.refuse(poison, str(refusal))
        self.dead_lettered += len(poison)
        self._tally.count("dead_lettered", len(poison))
        refused = {each.id for each in poison}
        return [([each for each in records if each.id not in refused], progress)]

    def _count(self, records: int) -> None:
        self._records += records
        self._transactions += 1
        self._failures, self._failure = 0, ""

    def _commit_idle(self, publisher: Publisher, page: Page) -> None:
        """Now and then commit how far an idle shard has looked, so that it does not hold back the purge; once an epoch
        also if it is where it was, so that Kafka does not forget it.
        """
        if time.monotonic() >= self._commit_idle_at:
            self._commit_idle_at = time.monotonic() + self._settings.purge.interval.total_seconds()
            known = publisher.committed
            if known is None or known.position != page.position.encode() or not self._renewed:
                publisher.publish([], page.position)
                self._renewed = True

    def _listen(self, publisher: Publisher) -> None:
        """An idle publisher's clients go on talking, of their statistics for instance."""
        if time.monotonic() >= self._listen_at:
            self._listen_at = time.monotonic() + _LISTEN_EVERY
            publisher.listen()

    def _next(self, capture: Capture) -> Page:
        began = time.monotonic()
        page = capture.next()
        if page.epoch != self._epoch:
            raise _Over("superseded")
        if time.monotonic() >= self._ends_at:
            raise _Over("time")
        if page.records:
            self._in_flight.read(page.records)
            self._tally.captured(len(page.records), time.monotonic() - began)
        return page

    def _check(self, turn: Turn) -> Turn:
        """Before anybody is fenced: is it our turn?"""
        if turn.epoch != self._epoch:
            raise _Over("superseded")
        return turn

    @contextmanager
    def _opened(self, seat: Seat) -> Iterator[tuple[Capture, Publisher, Aside]]:
        """Connected to both sides; as an heir, while the task before us still works."""
        turn = seat.turn()
        if turn.heir != self._epoch:
            self._check(turn)
        with (
            closing(capture_of(self._settings, self._shard, self._epoch, self._target)) as capture,
            closing(self._publisher(capture)) as publisher,
        ):
            if turn.heir == self._epoch:
                seat.relieve()
            else:
                seat.take()
            turn = self._check(seat.turn())
            publisher.open(turn.membership, latest(turn.saved, self._known))
            try:
                capture.start(publisher.committed.position if publisher.committed else None)
                aside = Aside(self._settings, self._shard, publisher, seat.connection)
                aside.settle()
                yield capture, publisher, aside
            finally:
                self._known = publisher.committed

    def _publisher(self, capture: Capture) -> Publisher:
        told = Statistics(self._tally.hear)
        if isinstance(capture, MarkCapture) and self._settings.delivery == "at-least-once":
            return AtLeastOncePublisher(self._settings, self._shard, partial(self._purge, capture), told)
        return TransactionalPublisher(self._settings, self._shard, told)

    def _purge(self, capture: MarkCapture, ids: Sequence[int]) -> None:
        """Delete what has arrived of the batch in hand: rows of the outbox, or released letters."""
        if isinstance(self._batch, ReleasedBatch):
            self._batch.forget(ids)
        else:
            capture.purge(ids)

    def _wait_after(self, error: WindrowError) -> bool:
        """Wait before the next try; False where the epoch is over by then."""
        self._failures += 1
        fenced = isinstance(error, RelayFenced)
        self._tally.count("fencings" if fenced else "interruptions")
        if not fenced and str(error) != self._failure:  # what lasts is said once
            self._failure = str(error)
            log.warning("relay %s, shard %d: %s; trying again", self._settings.name, self._shard.index, error)
        delay = backoff(self._failures, _AFTER_FENCE if fenced else self._settings.limits.io_error_backoff)
        time.sleep(max(0.0, min(delay, self._ends_at - time.monotonic())))
        return time.monotonic() < self._ends_at

    def _report(self, ending: Ending, error: str = "") -> ShardReport:
        return ShardReport(self._shard.index, ending, self._records, self._transactions, self.dead_lettered, error)
