"""Dead letters: messages that Kafka refuses for good, kept in a table beside the outbox with the reason.

With `poison: block-key` the later messages of a key are kept there as well, behind the refused one. This is what people
do with them. A retry does not publish: it releases letters, that is, gives them ascending numbers, by which the shards
publish them. Who numbers holds the relay's row, so that no number is given twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from psycopg.sql import Composable

from windrow.database.adoption import layout_of
from windrow.database.connections import Connection, Cursor, brief_transaction, connect, interruptible
from windrow.database.layouts import Layout
from windrow.database.tables import Tables
from windrow.errors import OutboxTableMissing
from windrow.settings import Settings

_OF_THE_LOG: Final = frozenset({"bury_whole", "places", "take_back"})


class DeadLetter(NamedTuple):
    """A letter, in short."""

    id: int
    topic: str
    key: bytes | None
    size: int | None
    reason: str
    create_time: datetime
    refused_at: datetime
    behind: int | None
    """The refused message of the same key that this one waits behind; None where it was refused itself."""
    release: int | None
    """Where it stands among those that are to be published after all; None where it is kept."""


class DeadLetterContent(NamedTuple):
    """A letter, whole."""

    id: int
    topic: str
    key: bytes | None
    value: bytes | None
    header_keys: list[str]
    header_values: list[bytes | None]
    partition: int | None
    timestamp: datetime | None
    reason: str
    create_time: datetime
    refused_at: datetime
    behind: int | None
    release: int | None


@dataclass(frozen=True, slots=True)
class LetterTable:
    """The statements on one relay's dead letters, on a connection of the caller's."""

    settings: Settings
    connection: Connection

    @contextmanager
    def locked(self) -> Iterator[int]:
        """A transaction in which nobody else numbers, adds or takes back letters; gives the latest number."""
        with brief_transaction(self.connection):
            if not (rows := self.rows("lock")):
                raise OutboxTableMissing(f'relay {self.settings.name} is not initialised: run "windrow init"')
            yield int(rows[0][0])

    def execute(
        self, name: str, mine: Composable | None = None, ahead: Composable | None = None, **parameters: object
    ) -> int:
        """Run a statement; returns how many rows it changed."""
        return self._run(name, {"mine": mine, "ahead": ahead}, parameters).rowcount

    def rows(self, name: str, mine: Composable | None = None, **parameters: object) -> list[tuple[Any, ...]]:
        return self._run(name, {"mine": mine}, parameters).fetchall()

    def layout(self) -> Layout:
        """The layout of the outbox that they come from."""
        return layout_of(self.connection, self.settings, self.settings.capture)

    def _run(self, name: str, given: Mapping[str, Composable | None], parameters: dict[str, object]) -> Cursor:
        fragments = {key: fragment for key, fragment in given.items() if fragment is not None}
        if name in {"bury", "write_back", "forget_ahead"}:
            fragments |= self.layout().fragments()
        file = "log_letter" if name in _OF_THE_LOG else "dead_letter"
        statement = Tables.of(self.settings).query(file, name, **fragments)
        return self.connection.execute(statement, {"relay": self.settings.name, **parameters})


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one relay."""

    settings: Settings

    def list(self, limit: int) -> Sequence[DeadLetter]:
        with self._table() as table:
            return [DeadLetter(*row) for row in table.rows("list", limit=limit)]

    def show(self, number: int) -> DeadLetterContent | None:
        with self._table() as table:
            rows = table.rows("show", id=number)
        return DeadLetterContent(*rows[0]) if rows else None

    def retry(self, ids: Sequence[int] | None) -> int:
        """Release these, or all, to be published after all; returns how many."""
        with self._table() as table, table.locked() as latest:
            released = table.execute("release", **_chosen(ids), latest=latest)
            table.execute("advance", latest=latest + released)
        return released

    def discard(self, ids: Sequence[int] | None) -> int:
        """Forget these, or all that are not released; returns how many. What waits behind them goes on."""
        with self._table() as table, table.locked() as latest:
            discarded = table.execute("discard", **_chosen(ids))
            if discarded:
                table.execute("advance", latest=latest + 1)  # the shards look which keys are free again
        return discarded

    def write_back(self, mine: Composable) -> int:
        """Write those of a shard that were released to the outbox anew, in their order; returns how many."""
        with self._table() as table, table.locked():
            return table.execute("write_back", mine)

    @contextmanager
    def _table(self) -> Iterator[LetterTable]:
        with interruptible(), connect(self.settings.data_source) as connection:
            yield LetterTable(self.settings, connection)


def _chosen(ids: Sequence[int] | None) -> dict[str, Any]:
    return {"ids": list(ids or ()), "everything": ids is None}
