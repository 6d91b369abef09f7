"""Dead letters: messages that Kafka refuses for good, kept in a table beside the outbox with the reason.

Invariant: a message is buried before the position moves past it. Whoever dies in between buries it again, which
changes nothing. A retry takes it out of the table and writes it to the outbox in one transaction: it is never in both
or in neither.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from windrow.database.layouts import layout_of
from windrow.database.postgres import Tables, connect, interruptible
from windrow.database.queries import query
from windrow.settings import Settings


class DeadLetter(NamedTuple):
    """A refused message, in short."""

    id: int
    topic: str
    key: bytes | None
    size: int | None
    reason: str
    create_time: datetime
    refused_at: datetime


class DeadLetterContent(NamedTuple):
    """A refused message, whole."""

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


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """The dead letters of one relay."""

    settings: Settings

    def bury(self, ids: Sequence[int], reason: str) -> None:
        """Keep the outbox's rows of these ids as dead letters."""
        self._execute("bury", ids=list(ids), reason=reason)

    def list(self, limit: int) -> Sequence[DeadLetter]:
        return [DeadLetter(*row) for row in self._execute("list", limit=limit)[1]]

    def show(self, number: int) -> DeadLetterContent | None:
        rows = self._execute("show", id=number)[1]
        return DeadLetterContent(*rows[0]) if rows else None

    def retry(self, ids: Sequence[int] | None) -> int:
        """Write these, or all, to the outbox anew; returns how many."""
        return self._execute("retry", ids=ids)[0]

    def discard(self, ids: Sequence[int] | None) -> int:
        """Forget these, or all; returns how many."""
        return self._execute("discard", ids=ids)[0]

    def _execute(self, name: str, **parameters: object) -> tuple[int, Sequence[tuple[Any, ...]]]:
        tables = Tables.beside(self.settings.outbox_table)
        with interruptible(), connect(self.settings.data_source) as connection:
            statement = tables.fill(query("dead_letter", name), **layout_of(connection, tables).fragments())
            cursor = connection.execute(statement, {"relay": self.settings.name, **parameters})
            return cursor.rowcount, cursor.fetchall() if cursor.description else []
