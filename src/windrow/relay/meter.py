"""The meter: how many records a second, as Kafka's committed positions tell it, and what is in flight.

A thread of its own reads it, since Kafka and the database may take their time to answer; the relay's thread, which
watches over the tasks and calls the owner, only takes what was read. Nor does the end of the term wait for an answer.
"""

import time
from collections import deque
from contextlib import suppress
from typing import Final
from uuid import UUID

from confluent_kafka import Consumer

from windrow.beside import Beside
from windrow.database.connections import connect, interruptible
from windrow.errors import DatabaseUnreachable, Interrupted
from windrow.kafka.clients import committed_positions, position_reader
from windrow.kafka.contact import parting
from windrow.relay.events import MeterRead
from windrow.relay.registry import Flight, Registry
from windrow.settings import Settings

_END_WITHIN: Final = 0.5


def in_flight(settings: Settings) -> Flight:
    """What all shards of a relay have in flight, as they told the database in the last seconds."""
    with interruptible(), connect(settings.data_source) as connection:
        shards = Registry(settings).in_flight(connection).values()
    return Flight(sum(each.records for each in shards), sum(each.keys for each in shards))


class Meter(Beside):
    """Reads the meter of a term while its context lasts."""

    def __init__(self, settings: Settings, leader_id: UUID) -> None:
        self._settings, self._leader_id = settings, leader_id
        self._newest: deque[MeterRead] = deque(maxlen=1)
        super().__init__(f"meter of {settings.name}", self._run, end_within=_END_WITHIN)

    def take(self) -> MeterRead | None:
        """What was read since the last time."""
        return self._newest.pop() if self._newest else None

    def _run(self) -> None:
        while not self.over.wait(self._settings.limits.min_metrics_interval.total_seconds()):
            with (
                suppress(Interrupted, DatabaseUnreachable),  # the shards report it
                parting(position_reader(self._settings)) as reader,
            ):
                self._read_on(reader)

    def _read_on(self, reader: Consumer) -> None:
        last: tuple[int, float] | None = None
        while True:
            last = self._read(reader, last)
            if self.over.wait(self._settings.limits.min_metrics_interval.total_seconds()):
                return

    def _read(self, reader: Consumer, last: tuple[int, float] | None) -> tuple[int, float]:
        positions = committed_positions(reader, self._settings, range(Registry(self._settings).shards()))
        published, now = sum(at.published for at in positions.values()), time.monotonic()
        if last:
            flight = in_flight(self._settings)
            self._newest.append(MeterRead(self._leader_id, published, published - last[0], now - last[1], *flight))
        return published, now
