"""Accept messages inside the handler's own transaction, each of them once.

Invariant: the caller owns the transaction. Nothing here commits, rolls back or opens one, so a message is accepted if
and only if its effects are committed. Of two that accept the same message at the same time one waits until the other's
transaction has ended, and accepts it only if that was rolled back.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from windrow.drivers import AsyncDriver, Driver, async_driver_of, driver_of
from windrow.inbox.identity import id_of
from windrow.inbox.statement import Statements

M = TypeVar("M")

CHUNK: Final = 10_000
_BATCH: Final = 1_000
_MARK: Final = "SAVEPOINT windrow_inbox"
_BACK: Final = "ROLLBACK TO SAVEPOINT windrow_inbox"


class Inbox(Statements):
    """The inbox of one consumer, which goes by `name`: each name accepts a message once.

    `table` may name a schema: `billing.inbox`. It is made by `create` or `windrow inbox init`. The connection is one of
    psycopg, psycopg2, SQLAlchemy (or an ORM session), Django, PyMySQL, mysqlclient or MySQL Connector/Python, in a
    transaction.
    """

    def create(self, connection: Any) -> None:
        """Make the tables, unless they are there. MySQL and MariaDB commit by themselves with it."""
        driver = driver_of(connection)
        for statement in self.creation(driver.dialect):
            driver.change(statement)

    def accept(self, connection: Any, message: Any, *, id: str | bytes | None = None) -> bool:  # noqa: A002 - what it is
        """Whether the message is new; from then on it is not. Where it is not new, do nothing with it."""
        driver = driver_of(connection)
        return driver.change(*self.statement(id_of(message, id), driver.dialect, driver.style)) == 1

    def accept_many(self, connection: Any, messages: Iterable[M]) -> list[M]:
        """Those of the messages that are new, in their order."""
        by_id = _by_id(messages)
        accepted: set[bytes] = set()
        driver = driver_of(connection)
        for ids in _batches(sorted(by_id)):  # in one order, so that nobody waits in a circle
            accepted |= self._accept_batch(driver, ids)
        return [message for each, message in by_id.items() if each in accepted]

    def _accept_batch(self, driver: Driver, ids: Sequence[bytes]) -> set[bytes]:
        if driver.dialect == "postgresql":
            return {bytes(row[0]) for row in driver.fetch(*self.many(ids, driver.style))}
        driver.change(_MARK)
        if driver.change(*self.all_or_some(ids)) == len(ids):
            return set(ids)
        driver.change(_BACK)
        return {each for each in ids if driver.change(*self.statement(each, driver.dialect, driver.style)) == 1}

    def purge(self, connection: Any, retention: timedelta, chunk: int = CHUNK) -> int:
        """Forget messages that were accepted longer ago, as many as `chunk`; how many. Fewer than that: it is done.

        What is forgotten would be accepted again.
        """
        driver = driver_of(connection)
        return driver.change(*self.purging(retention, chunk, driver.dialect, driver.style))


class AsyncInbox(Statements):
    """As `Inbox`, for asynchronous connections.

    Those are of psycopg, asyncpg, SQLAlchemy (or an ORM session), asyncmy or aiomysql.
    """

    async def create(self, connection: Any) -> None:
        """Make the tables, unless they are there. MySQL and MariaDB commit by themselves with it."""
        driver = await async_driver_of(connection)
        for statement in self.creation(driver.dialect):
            await driver.change(statement)

    async def accept(self, connection: Any, message: Any, *, id: str | bytes | None = None) -> bool:  # noqa: A002
        """Whether the message is new; from then on it is not. Where it is not new, do nothing with it."""
        driver = await async_driver_of(connection)
        return await driver.change(*self.statement(id_of(message, id), driver.dialect, driver.style)) == 1

    async def accept_many(self, connection: Any, messages: Iterable[M]) -> list[M]:
        """Those of the messages that are new, in their order."""
        by_id = _by_id(messages)
        accepted: set[bytes] = set()
        driver = await async_driver_of(connection)
        for ids in _batches(sorted(by_id)):
            accepted |= await self._accept_batch(driver, ids)
        return [message for each, message in by_id.items() if each in accepted]

    async def _accept_batch(self, driver: AsyncDriver, ids: Sequence[bytes]) -> set[bytes]:
        if driver.dialect == "postgresql":
            return {bytes(row[0]) for row in await driver.fetch(*self.many(ids, driver.style))}
        await driver.change(_MARK)
        if await driver.change(*self.all_or_some(ids)) == len(ids):
            return set(ids)
        await driver.change(_BACK)
        return {each for each in ids if await driver.change(*self.statement(each, driver.dialect, driver.style)) == 1}

    async def purge(self, connection: Any, retention: timedelta, chunk: int = CHUNK) -> int:
        """Forget messages that were accepted longer ago, as many as `chunk`; how many. Fewer than that: it is done.

        What is forgotten would be accepted again.
        """
        driver = await async_driver_of(connection)
        return await driver.change(*self.purging(retention, chunk, driver.dialect, driver.style))


def _by_id(messages: Iterable[M]) -> dict[bytes, M]:
    """The first message of each id, in their order."""
    found: dict[bytes, M] = {}
    for message in messages:
        found.setdefault(id_of(message), message)
    return found


def _batches(ids: Sequence[bytes]) -> list[Sequence[bytes]]:
    return [ids[first : first + _BATCH] for first in range(0, len(ids), _BATCH)]
