"""How a relay is: who leads, how far each shard is, what waits. Asked of Kafka and the database, from anywhere."""

from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from windrow.capture.choice import ahead
from windrow.capture.log_position import slot_of
from windrow.capture.shards import predicate
from windrow.database.adoption import layout_of
from windrow.database.connections import Connection, connect, interruptible
from windrow.database.layouts import Layout
from windrow.database.migrations import check
from windrow.database.tables import Tables
from windrow.errors import OutboxTableMissing
from windrow.kafka.clients import committed_positions, position_reader
from windrow.record import Committed, Shard
from windrow.relay.registry import Flight, Registry
from windrow.settings import Settings


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """One shard: what it has published, and what of it waits."""

    shard: int
    published: int
    position: str
    backlog: int
    oldest_age: float
    """Seconds since the oldest waiting message was created; 0 where none waits."""
    in_flight_records: int
    """Of those that wait, how many the shard had in hand a moment ago."""
    in_flight_keys: int


class Waiting(NamedTuple):
    """How many rows of a shard wait, and for how many seconds the oldest has; 0 where none waits."""

    records: int
    oldest_age: float


class LogStatus(NamedTuple):
    """What a relay that tails the log has before it there, in bytes; others write to the log, too."""

    unread: int
    """From where everything is published to the log's end."""
    held: int
    """What the server keeps for the relay, which begins where the oldest transaction did that may still matter."""


@dataclass(frozen=True, slots=True)
class Status:
    """A relay and its shards."""

    name: str
    leader_id: UUID | None
    """The term of the leader; None where nobody leads."""
    shards: list[ShardStatus]
    log: LogStatus | None = None
    """With `capture: tail`, what waits in the log; None otherwise, or where the slot is lost."""

    @property
    def published(self) -> int:
        return sum(shard.published for shard in self.shards)

    @property
    def backlog(self) -> int:
        return sum(shard.backlog for shard in self.shards)

    @property
    def in_flight_records(self) -> int:
        return sum(shard.in_flight_records for shard in self.shards)

    @property
    def oldest_age(self) -> float:
        return max((shard.oldest_age for shard in self.shards), default=0.0)


def status(settings: Settings) -> Status:
    """Ask how a relay is. A backlog of millions takes a second or two to count."""
    tables = Tables.of(settings)
    with interruptible(), connect(settings.data_source, "windrow status") as connection:
        check(connection, tables)
        asked = {"name": settings.name, "by_lease": settings.election == "lease"}
        row = connection.execute(tables.query("status", "relay"), asked).fetchone()
        if row is None:
            raise OutboxTableMissing(f'relay {settings.name} is not initialised: run "windrow init"')
        shards, leader = row
        with closing(position_reader(settings)) as reader:
            committed = committed_positions(reader, settings, range(shards))
        flights, layout = Registry(settings).in_flight(connection), layout_of(connection, settings, settings.capture)
        each = [
            _shard(
                settings, connection, layout, Shard(index, shards), committed.get(index), flights.get(index, Flight())
            )
            for index in range(shards)
        ]
        log = log_status(connection, settings, committed.get(0)) if settings.tails else None
    return Status(settings.name, leader, each, log)


def waiting(
    settings: Settings, connection: Connection, layout: Layout, shard: Shard, committed: Committed | None
) -> Waiting:
    """What of a shard waits, when this is what it has committed."""
    rows, holds = ahead(settings, layout, committed.position if committed and committed.position else None)
    mine = predicate(shard, layout)
    statement = Tables.of(settings).query("status", "backlog", rows=rows, ahead=holds, mine=mine, **layout.fragments())
    backlog, oldest = connection.execute(statement).fetchone() or (0, None)
    return Waiting(backlog, float(oldest or 0.0))


def log_status(connection: Connection, settings: Settings, committed: Committed | None) -> LogStatus | None:
    at = committed or Registry(settings).saved().get(0)
    asked = {"slot": slot_of(at.position) if at else None}
    row = connection.execute(Tables.of(settings).query("tail", "waiting"), asked).fetchone()
    return LogStatus(*row) if row else None


def _shard(  # noqa: PLR0913, PLR0917 - all that makes a shard
    settings: Settings,
    connection: Connection,
    layout: Layout,
    shard: Shard,
    committed: Committed | None,
    flight: Flight,
) -> ShardStatus:
    at = committed or Committed(0, "")
    return ShardStatus(
        shard.index, at.published, at.position, *waiting(settings, connection, layout, shard, committed), *flight
    )
