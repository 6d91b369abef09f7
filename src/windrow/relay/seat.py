"""A shard's seat: where its task learns whether it may run, and where an epoch relieves the one before it.

The heir's task comes up while the task before it still works: it connects, says that it is ready, and waits for the
seat, an advisory lock. The other sees with its next page that it is relieved, and gets up after what it has in hand. So
an epoch's turn costs messages the milliseconds that it takes to begin the first transaction, not the start of a job.

Trust: the seat is for smoothness alone. A task that does not get up in time, or lost its connection and with it the
lock, is fenced by the heir's producer, as any other predecessor is.
"""

from contextlib import suppress
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import UUID

import psycopg

from windrow.database.connections import Cursor, connect, interruptible
from windrow.database.tables import Tables
from windrow.record import Committed, Shard
from windrow.settings import Settings


class Turn(NamedTuple):
    """The epoch whose task may run, its heir, their membership of the group, and the shard's saved position."""

    epoch: UUID | None
    heir: UUID | None
    membership: bytes
    saved: Committed | None


class Seat:
    """The seat of one shard, as the task of one epoch sees it."""

    def __init__(self, settings: Settings, shard: Shard, epoch: UUID) -> None:
        self._tables = Tables.of(settings)
        self._me: dict[str, Any] = {"name": settings.name, "shard": shard.index, "epoch": epoch}
        self.connection = connect(settings.data_source, f"windrow {settings.name} {shard.index} seat")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    def turn(self) -> Turn:
        """Whose turn it is."""
        row = self._execute("turn").fetchone()
        epoch, heir, membership, *saved = row or (None,) * 7
        return Turn(epoch, heir, membership or b"", None if saved[0] is None else Committed(*saved))

    def take(self) -> None:
        """Have an heir wait for us, unless another task is still there."""
        self._execute("sit_down")

    def relieve(self) -> None:
        """Say that we are ready, and wait until the task before us has got up; but not for ever."""
        self._execute("make_ready")
        with interruptible(), suppress(psycopg.errors.LockNotAvailable), self.connection.transaction():
            self._execute("patience")
            self._execute("wait_for_seat")

    def _execute(self, name: str) -> Cursor:
        with interruptible():
            return self.connection.execute(self._tables.query("relay", name), self._me)
