"""Write messages inside the caller's own transaction, whatever library the connection is of.

Invariant: the caller owns the transaction. Nothing here commits, rolls back or opens one, so the messages are there if
and only if the caller's other changes are. Bad messages are refused before any row is inserted.
"""

from collections.abc import Iterable
from typing import Any

from windrow.drivers import async_driver_of, driver_of
from windrow.message import Bytes, Message
from windrow.outbox.statement import Statements, batches, row


class Outbox(Statements):
    """An outbox table that messages are written to.

    `table` may name a schema: `billing.outbox`. The table is made by `windrow init`. One of another system's layout
    is not written to from here: those who write to it have their own way of doing so. A value of more than
    `max_value_bytes` is refused, since Kafka would refuse it later.
    """

    def write(self, connection: Any, message: Message | Bytes, *, queue: str | None = None) -> int:
        """Insert the message and return its id, which consumers see as `x-sequence`.

        With `queue`, give a payload: the message is for that queue, and received there once the transaction is
        committed. `queue_message` makes such messages with headers and limits.

        The connection is one of psycopg, psycopg2, SQLAlchemy (or an ORM session), Django, PyMySQL, mysqlclient or
        MySQL Connector/Python.
        """
        driver = driver_of(connection)
        return driver.insert(*self.statement(self.meant(message, queue), driver.dialect, driver.style))

    def write_many(self, connection: Any, messages: Iterable[Message]) -> int:
        """Insert the messages, with ids in their order, and return how many they are.

        They go together: in one statement for each 1,000, or with psycopg by COPY.
        """
        checked = self.checked(messages)
        driver = driver_of(connection)
        if self.mode == "table" and driver.takes_copy(len(checked)):
            driver.copy(self.copying, map(row, checked))
            return len(checked)
        for batch in batches(checked):
            driver.insert(*self.statement(batch, driver.dialect, driver.style))
        return len(checked)


class AsyncOutbox(Statements):
    """As `Outbox`, for asynchronous connections.

    Those are of psycopg, asyncpg, SQLAlchemy (or an ORM session), asyncmy or aiomysql.
    """

    async def write(self, connection: Any, message: Message | Bytes, *, queue: str | None = None) -> int:
        """Insert the message and return its id, which consumers see as `x-sequence`; `queue` as in `Outbox`."""
        driver = await async_driver_of(connection)
        return await driver.insert(*self.statement(self.meant(message, queue), driver.dialect, driver.style))

    async def write_many(self, connection: Any, messages: Iterable[Message]) -> int:
        """Insert the messages, with ids in their order, and return how many they are.

        They go together: in one statement for each 1,000, or with psycopg and asyncpg by COPY.
        """
        checked = self.checked(messages)
        driver = await async_driver_of(connection)
        if self.mode == "table" and driver.takes_copy(len(checked)):
            await driver.copy(self.copying, map(row, checked))
            return len(checked)
        for batch in batches(checked):
            await driver.insert(*self.statement(batch, driver.dialect, driver.style))
        return len(checked)
