"""A relay's rows in the database: how many shards it has, which epoch's tasks may run, where its shards were last.

The row is how the driver speaks to tasks on other machines: they read the epoch with every page, and end when it is
not theirs any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from windrow.capture.position import Position, Snapshot
from windrow.database.adoption import layout_of
from windrow.database.connections import Connection, brief_transaction, connect, interruptible
from windrow.database.migrations import check
from windrow.database.tables import Tables
from windrow.election.mandate import Term
from windrow.errors import OutboxTableMissing, RelayFenced, SettingsInvalid
from windrow.record import Committed, Shard
from windrow.relay.tally import ShardFigures
from windrow.settings import Settings

_ONE_SHARD: Final = "give another name, or the capture that it was made for"
LATELY: Final = timedelta(seconds=3)


class Opened(NamedTuple):
    """An epoch that has begun: how many shards it has, and how many the relay is to have; None where it keeps them."""

    shards: int
    wanted: int | None


class Flight(NamedTuple):
    """How many records a shard has read and not yet committed, and how many keys they have."""

    records: int = 0
    keys: int = 0


@dataclass(frozen=True, slots=True)
class Registry:
    """The row of one relay."""

    settings: Settings

    @property
    def tables(self) -> Tables:
        return Tables.of(self.settings)

    def fit_shards(self) -> int:
        """The relay's number of shards, once the tables and the settings are seen to be fit."""
        name, given = self.settings.name, self.settings.shards
        with interruptible(), connect(self.settings.data_source) as connection:
            check(connection, self.tables)
            layout_of(connection, self.settings, self.settings.capture)
        shards = self.shards()
        if given not in {None, shards}:
            raise SettingsInvalid(
                [f'shards: relay {name} has {shards}; set {shards}, leave it out, or run "windrow reshard {given}"']
            )
        if self.settings.tails and shards > 1:
            raise SettingsInvalid([f"capture: tail: a log has one reader, and relay {name} has {shards}; {_ONE_SHARD}"])
        return shards

    def shards(self) -> int:
        """The relay's number of shards at present."""
        return int(self._entry("shards")[0])

    def enter(self, connection: Connection, shards: int) -> None:
        """Enter the relay, unless it is there."""
        entry = {"name": self.tables.literal(self.settings.name), "shards": self.tables.literal(shards)}
        connection.execute(self.tables.query("relay", "enter", **entry))

    def others(self, connection: Connection) -> list[str]:
        """The other relays that read this outbox."""
        rows = connection.execute(self.tables.query("relay", "others"), {"name": self.settings.name}).fetchall()
        return [str(name) for (name,) in rows]

    def open_epoch(self, epoch: UUID, term: Term) -> Opened:
        """Let the tasks of this epoch run, in this term; raises `RelayFenced` where that was by lease and is over."""
        row = self._execute("open_epoch", epoch=epoch, leader=term.id, membership=term.membership, term=term.number)
        if row is None:
            self.shards()  # raises where the relay is not entered any more
            raise RelayFenced(f"the lease of term {term.number} is over")
        return Opened(*row)

    def name_heir(self, epoch: UUID, heir: UUID) -> None:
        self._execute("name_heir", epoch=epoch, heir=heir)

    def renew_membership(self, leader: UUID, membership: bytes) -> None:
        self._execute("renew_membership", leader=leader, membership=membership)

    def close_epochs(self, leader: UUID) -> None:
        self._execute("close_epochs", leader=leader)

    def saved(self) -> dict[int, Committed]:
        """The positions that were saved, by shard."""
        with interruptible(), connect(self.settings.data_source) as connection:
            rows = connection.execute(self.tables.query("relay", "saved"), {"name": self.settings.name}).fetchall()
        return {shard: Committed(*at) for shard, *at in rows}

    def save(self, positions: Mapping[int, Committed]) -> None:
        """Keep positions in the database as well, for the day that Kafka has forgotten them."""
        with interruptible(), connect(self.settings.data_source) as connection:
            self._save(connection, positions)

    def tell(self, connection: Connection, shard: Shard, flight: Flight, since: ShardFigures) -> None:
        """Note what a shard has in flight, and add to its figures; on a connection that the caller keeps."""
        me = {"name": self.settings.name, "shard": shard.index}
        with interruptible(), brief_transaction(connection):
            connection.execute(self.tables.query("relay", "tell_in_flight"), {**me, **flight._asdict()})
            row = connection.execute(self.tables.query("relay", "shard_figures"), me).fetchone()
            figures = ShardFigures.decode(row[0] if row else None)
            figures.add(since)
            connection.execute(self.tables.query("relay", "tell_figures"), {**me, "figures": figures.encode()})

    def in_flight(self, connection: Connection) -> dict[int, Flight]:
        """What each shard has in flight; those that are idle or gone have told nothing lately."""
        parameters = {"name": self.settings.name, "lately": LATELY}
        rows = connection.execute(self.tables.query("relay", "in_flight"), parameters).fetchall()
        return {shard: Flight(*figures) for shard, *figures in rows}

    def want_shards(self, wanted: int) -> int:
        """Have the leader change the number of shards; returns the present one, which may be the wanted."""
        if self.settings.tails:
            raise SettingsInvalid(["capture: tail: a log has one reader: the number of shards stays 1"])
        return int(self._entry("want_shards", wanted=wanted)[0])

    def epoch(self) -> UUID | None:
        """The epoch whose tasks may run; None where it was ended and no other has begun."""
        row = self._execute("epoch")
        return row[0] if row else None

    def switch_shards(self, epoch: UUID, wanted: int, positions: Mapping[int, Committed]) -> bool:
        """Have the wanted number of shards, at these positions; False where that is no longer this epoch's business."""
        mine = {"name": self.settings.name, "epoch": epoch, "wanted": wanted}
        with interruptible(), connect(self.settings.data_source) as connection, brief_transaction(connection):
            switched = connection.execute(self.tables.query("relay", "switch_shards"), mine).rowcount
            if switched:
                connection.execute(self.tables.query("relay", "forget_positions"), mine)
                self._save(connection, positions)
        return bool(switched)

    def now(self) -> Position:
        """Where a shard stands that has published all that is visible now."""
        database, seen = self._entry("now")
        return Position(database, Snapshot.parse(seen))

    def _save(self, connection: Connection, positions: Mapping[int, Committed]) -> None:
        statement = self.tables.query("relay", "save_position")
        for shard, at in positions.items():
            connection.execute(statement, {"name": self.settings.name, "shard": shard, **at._asdict()})

    def _entry(self, name: str, **parameters: int) -> tuple[Any, ...]:
        row = self._execute(name, **parameters)
        if row is None:
            raise OutboxTableMissing(f'relay {self.settings.name} is not initialised: run "windrow init"')
        return row

    def _execute(self, name: str, **parameters: UUID | bytes | int | None) -> tuple[Any, ...] | None:
        with interruptible(), connect(self.settings.data_source) as connection:
            cursor = connection.execute(self.tables.query("relay", name), {"name": self.settings.name, **parameters})
            return cursor.fetchone() if cursor.description else None
