"""The shard's loop: read a page, publish it in a transaction, repeat, until the epoch is over.

Runs inside a Spark task. Every way out is a `ShardReport`; a broken connection is no way out: the loop opens anew
from the committed position, as often as it takes. An epoch is over when its time is up or when the database names
another one (the relay stops, or somebody else has taken over).
"""

import logging
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal
from uuid import UUID

from windrow.capture.protocol import Capture, Page
from windrow.capture.snapshot import SnapshotCapture
from windrow.errors import DatabaseUnreachable, Interrupted, PublishFailed, RelayFenced, WindrowError
from windrow.publish.dead_letter import DeadLetters
from windrow.publish.transaction import TransactionalPublisher
from windrow.record import Progress, Record, Shard
from windrow.relay.pace import backoff, poll_delay
from windrow.relay.registry import Registry, Turn
from windrow.settings import Settings

log = logging.getLogger(__name__)

_AFTER_FENCE: Final = timedelta(milliseconds=5)

Ending = Literal["time", "superseded", "failed"]


@dataclass(frozen=True, slots=True)
class ShardReport:
    """How a shard's part of an epoch ended, and what it published in it."""

    shard: int
    ending: Ending
    records: int
    transactions: int
    error: str
    """The error's class and message where it failed, otherwise empty."""


def middle_of(ids: Sequence[int]) -> int:
    """Where to halve records of ascending ids, so that those of one id stay together; 0 where that is impossible."""
    before = bisect_left(ids, ids[len(ids) // 2])
    return before or bisect_right(ids, ids[0]) % len(ids)


class _Over(Exception):
    """Not an error: the epoch has ended."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending)
        self.ending: Ending = ending


class ShardLoop:
    """One shard in one epoch."""

    def __init__(self, settings: Settings, shard: Shard, epoch: UUID) -> None:
        self._settings, self._shard, self._epoch = settings, shard, epoch
        self._ends_at = time.monotonic() + settings.epoch.total_seconds()
        self._records = self._transactions = self._failures = 0
        self._commit_idle_at = 0.0

    def run(self) -> ShardReport:
        while True:
            try:
                with self._opened(self._check_turn()) as (capture, publisher):
                    self._pump(capture, publisher)
            except (Interrupted, DatabaseUnreachable, RelayFenced) as error:
                # Fenced: by a successor, whose epoch `_check_turn` then sees, by a new generation, which it brings, or
                # by a transaction that timed out.
                if not self._wait_after(error):
                    return self._report("time")
            except _Over as over:
                return self._report(over.ending)
            except WindrowError as error:
                return self._report("failed", f"{type(error).__name__}: {error}")

    def _pump(self, capture: Capture, publisher: TransactionalPublisher) -> None:
        limits = self._settings.limits
        last_message = time.monotonic()
        with ThreadPoolExecutor(1) as ahead:
            page = self._next(capture)
            while True:
                # More is waiting: read on while this page is being published.
                following = ahead.submit(self._next, capture) if page.more else None
                if page.records:
                    self.publish(publisher, page, page.records, page.position)
                    self._records += len(page.records)
                    self._transactions += 1
                    self._failures = 0
                    last_message = time.monotonic()
                elif not page.more:
                    self._commit_idle(publisher, page)
                    idle = time.monotonic() - last_message
                    time.sleep(poll_delay(idle, limits.min_poll_interval, limits.max_poll_interval))
                page = following.result() if following else self._next(capture)

    def publish(
        self, publisher: TransactionalPublisher, page: Page, records: Sequence[Record], position: Progress
    ) -> None:
        """Publish the records, all of a page or a part of it; around what Kafka refuses, unless that is to stop us."""
        try:
            publisher.publish(records, position)
        except PublishFailed as refusal:
            if self._settings.poison == "stop":
                raise
            for part, until in self._around(page, records, position, refusal):
                self.publish(publisher, page, part, until)

    def _around(
        self, page: Page, records: Sequence[Record], position: Progress, refusal: PublishFailed
    ) -> list[tuple[Sequence[Record], Progress]]:
        """What to publish instead, in order: the records without the poison, which is buried, or halves to find it."""
        if not refusal.whole_topic and (middle := middle_of([each.id for each in records])):
            return [(records[:middle], page.upto(records[middle - 1].id)), (records[middle:], position)]
        refused = {each.id for each in records if each.topic == refusal.topic}
        poison = [each for each in records if each.id in refused]
        log.warning(
            "relay %s: %d messages to dead letters, from id %d on: %s",
            self._settings.name,
            len(poison),
            poison[0].id,
            refusal,
        )
        DeadLetters(self._settings).bury(sorted(refused), str(refusal))
        return [([each for each in records if each.id not in refused], position)]

    def _commit_idle(self, publisher: TransactionalPublisher, page: Page) -> None:
        """Now and then commit how far an idle shard has looked, so that it does not hold back the purge."""
        if time.monotonic() >= self._commit_idle_at:
            self._commit_idle_at = time.monotonic() + self._settings.purge.interval.total_seconds()
            if publisher.committed is None or publisher.committed.position != page.position.encode():
                publisher.publish([], page.position)

    def _next(self, capture: Capture) -> Page:
        page = capture.next()
        if page.epoch != self._epoch:
            raise _Over("superseded")
        if time.monotonic() >= self._ends_at:
            raise _Over("time")
        return page

    def _check_turn(self) -> Turn:
        """Before anybody is fenced: is it still our turn?"""
        turn = Registry(self._settings).turn(self._shard)
        if turn.epoch != self._epoch:
            raise _Over("superseded")
        return turn

    @contextmanager
    def _opened(self, turn: Turn) -> Iterator[tuple[Capture, TransactionalPublisher]]:
        with closing(TransactionalPublisher(self._settings, self._shard, turn.membership, turn.saved)) as publisher:
            committed = publisher.committed.position if publisher.committed else None
            with closing(SnapshotCapture(self._settings, self._shard, committed)) as capture:
                yield capture, publisher

    def _wait_after(self, error: WindrowError) -> bool:
        """Wait before the next try; False where the epoch is over by then."""
        self._failures += 1
        fenced = isinstance(error, RelayFenced)
        if self._failures == 1 and not fenced:
            log.warning("relay %s, shard %d: %s; trying again", self._settings.name, self._shard.index, error)
        delay = backoff(self._failures, _AFTER_FENCE if fenced else self._settings.limits.io_error_backoff)
        time.sleep(max(0.0, min(delay, self._ends_at - time.monotonic())))
        return time.monotonic() < self._ends_at

    def _report(self, ending: Ending, error: str = "") -> ShardReport:
        return ShardReport(self._shard.index, ending, self._records, self._transactions, error)
