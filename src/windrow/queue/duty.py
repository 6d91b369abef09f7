"""The duty of one markers partition in one epoch: a watch that is opened anew as often as it takes, until it is over.

Runs inside a Spark task. Every way out is a `DutyReport`; a broken connection is no way out: the next watch begins at
the committed offset. The duty is over when the log has a CLOSE for its epoch, when the epoch's time is up, or when
Kafka refuses the leader's membership. Opening fences whoever had the duty before; whether we may have it shows at once,
with the first transaction.
"""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Literal
from uuid import UUID

from confluent_kafka import Consumer, KafkaException, TopicPartition

from windrow.errors import Interrupted, RelayFenced
from windrow.kafka.clients import error_of
from windrow.kafka.contact import parting
from windrow.pace import backoff
from windrow.publish.transactor import MembershipOver
from windrow.queue.mover import Tally
from windrow.queue.payloads import Payloads
from windrow.queue.settings import QueueSettings
from windrow.queue.transfer import Ticker, Transfer
from windrow.queue.watch import Closed, Watch, reading

log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = timedelta(milliseconds=100)
_ANSWER_WITHIN: Final = 10.0

Ending = Literal["time", "closed", "superseded"]


@dataclass(frozen=True, slots=True)
class DutyReport:
    """How a partition's duty ended, and what was done."""

    partition: int
    ending: Ending
    tally: Tally


class Duty:
    """For one markers partition, with the leader's membership; ends early where `over` is set."""

    def __init__(
        self, settings: QueueSettings, partition: int, epoch: UUID, membership: bytes, over: threading.Event
    ) -> None:
        self._settings, self._own = settings, TopicPartition(settings.marker_topic, partition)
        self._epoch, self._membership, self._over = epoch.bytes, membership, over
        self._ends_at = time.monotonic() + settings.redelivery_tracker.epoch.total_seconds()
        self._tally = Tally()
        self._failures = 0

    def run(self) -> DutyReport:
        while not self._over.is_set() and time.monotonic() < self._ends_at:
            try:
                with self._opened() as watch:
                    while not self._over.is_set() and time.monotonic() < self._ends_at:
                        watch.look()
                        self._failures = 0
            except Closed:
                return self._report("closed")
            except MembershipOver:
                return self._report("superseded")
            except (Interrupted, RelayFenced) as error:
                # Fenced: by a successor, in which case our membership is over, or as a transaction timed out.
                self._wait_after(error)
        return self._report("closed" if self._over.is_set() else "time")

    @contextmanager
    def _opened(self) -> Iterator[Watch]:
        settings, partition = self._settings, self._own.partition
        with (
            closing(Transfer(settings, partition, self._membership)) as transfer,
            closing(Ticker(settings, partition)) as ticker,
            closing(Payloads(settings, partition)) as payloads,
            parting(Consumer(reading(settings))) as consumer,
        ):
            transfer.open()
            try:
                start = transfer.committed
                if start is None:
                    start, _ = consumer.get_watermark_offsets(self._own, _ANSWER_WITHIN)
                transfer.commit([], start)
                own = TopicPartition(settings.marker_topic, partition, start)
                consumer.assign([own])
            except KafkaException as exception:
                raise Interrupted(f"markers could not be read: {error_of(exception).str()}") from exception
            yield Watch(settings, own, self._epoch, consumer, ticker, transfer, payloads, self._tally)

    def _wait_after(self, error: Interrupted | RelayFenced) -> None:
        self._failures += 1
        if self._failures == 1:
            where = f"tracker of {self._settings.message_topic}, markers partition {self._own.partition}"
            log.warning("%s: %s; trying again", where, error)
        pause = backoff(self._failures, _FIRST_PAUSE)
        self._over.wait(max(0.0, min(pause, self._ends_at - time.monotonic())))

    def _report(self, ending: Ending) -> DutyReport:
        return DutyReport(self._own.partition, ending, self._tally)
