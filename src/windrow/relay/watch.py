"""How a relay is, looked at again and again: the figures behind metrics, health and the dashboard.

Any process that reaches the servers can look, whether it leads, stands by or only watches. What the tasks tell, what
Kafka has committed and what waits are looked at in threads of their own, since each may take its time: a broker that
is silent does not keep the database's figures back. Invariant: what is shown is what was last seen, and how long ago
that was is shown with it.

Counting a backlog of millions takes a second or two. So nothing is counted for more than a part of the time.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Final, NamedTuple
from uuid import UUID

from confluent_kafka import Consumer

from windrow.beside import Beside
from windrow.database.adoption import layout_of
from windrow.database.connections import Connection, connect, interruptible
from windrow.database.layouts import Layout
from windrow.database.tables import Tables
from windrow.errors import OutboxTableMissing, WindrowError
from windrow.kafka.clients import committed_positions, position_reader
from windrow.kafka.contact import parting
from windrow.observe.health import Bounds, Seen, objections
from windrow.record import Committed, Shard
from windrow.relay.registry import LATELY, Flight, Registry
from windrow.relay.status import LogStatus, Waiting, log_status, waiting
from windrow.relay.tally import ShardFigures
from windrow.settings import Settings
from windrow.spark.away import AWAY, first_line

log = logging.getLogger(__name__)

_LOOK_EVERY: Final = 1.0
_COUNT_EVERY: Final = 2.0
_LEISURE: Final = 10
"""Rest so many times as long as counting took."""
_REST_AT_MOST: Final = 15.0
_END_WITHIN: Final = 2.0


class Told(NamedTuple):
    """What a shard's task last told."""

    flight: Flight
    seconds_ago: float
    figures: ShardFigures

    @property
    def lately(self) -> bool:
        return self.seconds_ago < LATELY.total_seconds()


@dataclass(slots=True)
class View:
    """What was last seen; parts that were never seen are empty. Times are by `time.monotonic`."""

    began_at: float
    shards: int | None = None
    leader_id: UUID | None = None
    told: Mapping[int, Told] = field(default_factory=dict)
    positions: Mapping[int, Committed] = field(default_factory=dict)
    waiting: Mapping[int, Waiting] = field(default_factory=dict)
    letters: int | None = None
    log: LogStatus | None = None
    database_at: float = 0.0
    kafka_at: float = 0.0
    led_at: float = 0.0
    published_at: float = 0.0
    """When the count of published records was last seen to grow."""

    def __post_init__(self) -> None:
        self.database_at = self.kafka_at = self.led_at = self.published_at = self.began_at

    @property
    def published(self) -> int:
        return sum(at.published for at in self.positions.values())

    @property
    def active(self) -> bool:
        """Whether a shard had something to tell a moment ago; an idle one is silent."""
        return any(each.lately for each in self.told.values())

    def figures(self) -> ShardFigures:
        """Those of all shards together."""
        total = ShardFigures()
        for each in self.told.values():
            total.add(each.figures)
        return total

    def seen(self, now: float) -> Seen:
        """The view as health is judged by."""
        counted = self.waiting.values()
        return Seen(
            leaderless_for=now - self.led_at,
            backlog=sum(each.records for each in counted) if counted else None,
            oldest_age=max((each.oldest_age for each in counted), default=None),
            unpublished_for=now - self.published_at,
            slot_held=self.log.held if self.log else None,
            database_silent_for=now - self.database_at,
            kafka_silent_for=now - self.kafka_at,
        )


class Watch(Beside):
    """Looks at a relay while its context lasts; `view` is what it has seen."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.view = View(time.monotonic())
        self._tables = Tables.of(settings)
        looks = (self._hear_tasks, self._hear_kafka, self._count)
        super().__init__(f"watch of {settings.name}", *looks, end_within=_END_WITHIN)

    def objections(self) -> list[str]:
        """Why the relay is not ready; nothing where it is."""
        return [*objections(self.view.seen(time.monotonic()), self._bounds)]

    @cached_property
    def _bounds(self) -> Bounds:
        observe, limits = self.settings.observe, self.settings.limits
        return Bounds(
            observe.stalled_after,
            observe.max_oldest_age,
            limits.max_slot_wal,
            limits.sweep_after if self.settings.capture == "sweep" else timedelta(),
        )

    def _repeat(self, what: Callable[[], object], every: float, leisure: float = 0.0) -> None:
        while not self.over.is_set():
            began = time.monotonic()
            what()
            self.over.wait(max(every, min(leisure * (time.monotonic() - began), _REST_AT_MOST)))

    def _on_connection(self, what: Callable[[Connection], object], every: float, leisure: float = 0.0) -> None:
        """Look again and again on one connection, and on a new one where it broke."""

        def look() -> None:
            try:
                with interruptible(), connect(self.settings.data_source, "windrow watch") as connection:
                    self._repeat(lambda: what(connection), every, leisure)
            except WindrowError as error:
                self._complain(error)

        self._repeat(look, every)

    def _complain(self, error: WindrowError) -> None:
        """Servers that are away show in the figures; what does not pass is said, since nobody else may say it."""
        level = logging.DEBUG if isinstance(error, AWAY) else logging.WARNING
        log.log(level, "relay %s: figures are missing: %s", self.settings.name, first_line(error))

    def _hear_tasks(self) -> None:
        self._on_connection(self._hear, _LOOK_EVERY)

    def _hear(self, connection: Connection) -> None:
        asked = {"name": self.settings.name, "by_lease": self.settings.election == "lease"}
        rows = connection.execute(self._tables.query("status", "figures"), asked).fetchall()
        if not rows:
            raise OutboxTableMissing(f'relay {self.settings.name} is not initialised: run "windrow init"')
        view, now = self.view, time.monotonic()
        view.shards, view.leader_id, view.letters = rows[0][:3]
        view.told = {
            shard: Told(Flight(records, keys), float(ago), ShardFigures.decode(figures))
            for _, _, _, shard, records, keys, ago, figures in rows
            if shard is not None
        }
        view.database_at = now
        if view.leader_id:
            view.led_at = now

    def _hear_kafka(self) -> None:
        def look() -> None:
            try:
                with parting(position_reader(self.settings)) as reader:
                    self._repeat(lambda: self._hear_positions(reader), _LOOK_EVERY)
            except WindrowError as error:
                self._complain(error)

        self._repeat(look, _LOOK_EVERY)

    def _hear_positions(self, reader: Consumer) -> None:
        if self.view.shards is None:
            return
        positions = committed_positions(reader, self.settings, range(self.view.shards))
        view, before, now = self.view, self.view.published, time.monotonic()
        view.positions = positions
        view.kafka_at = now
        if view.published > before:
            view.published_at = now

    def _count(self) -> None:
        layouts: list[Layout] = []

        def count(connection: Connection) -> None:
            if not layouts:
                layouts.append(layout_of(connection, self.settings, self.settings.capture))
            shards, positions = self.view.shards, self._last_positions()
            if shards is None or positions is None:
                return
            self.view.waiting = dict(self._waiting(connection, layouts[0], shards, positions))
            if self.settings.tails:
                self.view.log = log_status(connection, self.settings, positions.get(0))

        self._on_connection(count, _COUNT_EVERY, _LEISURE)

    def _last_positions(self) -> Mapping[int, Committed] | None:
        """As Kafka told them last; where it has been silent all the time, those that were saved, behind which less
        waits than it seems. None where it is too early to say.
        """
        if self.view.kafka_at > self.view.began_at:
            return self.view.positions
        if time.monotonic() - self.view.began_at > self.settings.observe.stalled_after.total_seconds():
            return Registry(self.settings).saved()
        return None

    def _waiting(
        self, connection: Connection, layout: Layout, shards: int, positions: Mapping[int, Committed]
    ) -> Iterator[tuple[int, Waiting]]:
        for index in range(shards):
            yield index, waiting(self.settings, connection, layout, Shard(index, shards), positions.get(index))
            if self.over.is_set():
                return
