"""A relay's rows in the database: how many shards it has, which epoch's tasks may run, where its shards were last.

The row is how the driver speaks to tasks on other machines: they read the epoch with every page, and end when it is
not theirs any more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from psycopg.sql import Literal

from windrow.database.migrations import check
from windrow.database.postgres import Connection, Tables, connect, interruptible
from windrow.database.queries import query
from windrow.errors import OutboxTableMissing, SettingsInvalid
from windrow.record import Committed, Shard
from windrow.settings import Settings


class Turn(NamedTuple):
    """The epoch whose tasks may run, their membership of the group, and the shard's saved position."""

    epoch: UUID | None
    membership: bytes
    saved: Committed | None


@dataclass(frozen=True, slots=True)
class Registry:
    """The row of one relay."""

    settings: Settings

    @property
    def tables(self) -> Tables:
        return Tables.beside(self.settings.outbox_table)

    def shards(self) -> int:
        """The relay's number of shards, once the tables are seen to be fit."""
        name, wanted = self.settings.name, self.settings.shards
        with interruptible(), connect(self.settings.data_source) as connection:
            check(connection, self.tables)
            row = connection.execute(self.tables.fill(query("relay", "shards")), {"name": name}).fetchone()
        if row is None:
            raise OutboxTableMissing(f'relay {name} is not initialised: run "windrow init"')
        if wanted not in {None, row[0]}:
            raise SettingsInvalid([f"shards: relay {name} has {row[0]}, which is fixed; set {row[0]} or leave it out"])
        return int(row[0])

    def enter(self, connection: Connection, shards: int) -> None:
        """Enter the relay, unless it is there."""
        name = Literal(self.settings.name)
        connection.execute(self.tables.fill(query("relay", "enter"), name=name, shards=Literal(shards)))

    def open_epoch(self, epoch: UUID, leader: UUID, membership: bytes) -> None:
        self._execute("open_epoch", epoch=epoch, leader=leader, membership=membership)

    def renew_epoch(self, epoch: UUID, membership: bytes) -> None:
        self._execute("renew_epoch", epoch=epoch, membership=membership)

    def close_epoch(self, epoch: UUID) -> None:
        self._execute("close_epoch", epoch=epoch)

    def turn(self, shard: Shard) -> Turn:
        """What a shard has to know before it opens."""
        with interruptible(), connect(self.settings.data_source) as connection:
            row = connection.execute(
                self.tables.fill(query("relay", "turn")), {"name": self.settings.name, "shard": shard.index}
            ).fetchone()
        epoch, membership, published, position = row or (None, None, None, None)
        return Turn(epoch, membership or b"", None if position is None else Committed(published, position))

    def saved(self) -> dict[int, Committed]:
        """The positions that were saved, by shard."""
        with interruptible(), connect(self.settings.data_source) as connection:
            rows = connection.execute(
                self.tables.fill(query("relay", "saved_positions")), {"name": self.settings.name}
            ).fetchall()
        return {shard: Committed(published, position) for shard, published, position in rows}

    def save(self, positions: Mapping[int, Committed]) -> None:
        """Keep positions in the database as well, for the day that Kafka has forgotten them."""
        rows = [
            {"name": self.settings.name, "shard": shard, "published": at.published, "position": at.position}
            for shard, at in positions.items()
        ]
        with interruptible(), connect(self.settings.data_source) as connection:
            connection.cursor().executemany(self.tables.fill(query("relay", "save_position")), rows)

    def _execute(self, name: str, **parameters: UUID | bytes) -> None:
        with interruptible(), connect(self.settings.data_source) as connection:
            connection.execute(self.tables.fill(query("relay", name)), {"name": self.settings.name, **parameters})
