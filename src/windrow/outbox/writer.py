"""Write a message inside the caller's own transaction.

Invariant: the caller owns the transaction. Nothing here commits, rolls back or opens one, so the message is there if
and only if the caller's other changes are.
"""

from typing import TYPE_CHECKING, Any, Final

from windrow.message import Message
from windrow.table import quoted

if TYPE_CHECKING:
    import psycopg

_COLUMNS: Final = "topic, key, value, header_keys, header_values, partition, timestamp"


class Outbox:
    """An outbox table that messages are written to.

    `table` may name a schema: `billing.outbox`. The table is made by `windrow init`. One of another system's layout
    is not written to from here: those who write to it have their own way of doing so.
    """

    def __init__(self, table: str = "outbox") -> None:
        self._insert = f"INSERT INTO {quoted(table)} ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s) RETURNING id"  # noqa: S608 - quoted

    def insert(self, message: Message) -> tuple[str, tuple[Any, ...]]:
        """The statement and its parameters, for drivers that take `%s`."""
        return self._insert, (
            message.topic,
            message.key,
            message.value,
            [name for name, _ in message.headers],
            [content for _, content in message.headers],
            message.partition,
            message.timestamp,
        )

    def write(self, connection: "psycopg.Connection[Any]", message: Message) -> int:
        """Insert the message and return its id, which consumers see as `x-sequence`."""
        row = connection.execute(*self.insert(message)).fetchone()
        if row is None:
            raise AssertionError("INSERT … RETURNING gave no row")
        return int(row[0])
