"""As `drivers`, for asynchronous connections. Those of SQLAlchemy run the synchronous drivers by themselves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from windrow.message import Message
from windrow.outbox.drivers import COPY_FROM, driver_of, plain_rows, takes_copy
from windrow.outbox.recognition import recognised
from windrow.outbox.statement import COLUMNS, TYPES, Row, Statements, Style, batches, row
from windrow.table import Dialect


class AsyncDriver:
    """A connection whose asynchronous cursors take `%s`: asyncmy, aiomysql."""

    dialect: ClassVar[Dialect] = "mysql"
    style: ClassVar[Style] = "%s"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def write(self, statements: Statements, messages: Message | Sequence[Message]) -> int:
        """Write them in one statement; the id of the first."""
        return await self._insert(*statements.statement(messages, self.dialect, self.style))

    async def write_many(self, statements: Statements, messages: Sequence[Message]) -> None:
        for batch in batches(messages):
            await self.write(statements, batch)

    async def _insert(self, statement: str, parameters: Row) -> int:
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, parameters)
            return int(cursor.lastrowid)


class _Psycopg(AsyncDriver):
    dialect = "postgresql"

    async def write_many(self, statements: Statements, messages: Sequence[Message]) -> None:
        if not takes_copy(self._connection, statements, messages):
            await super().write_many(statements, messages)
            return
        async with self._connection.cursor() as cursor, cursor.copy(statements.copy) as copy:
            copy.set_types(TYPES)
            for message in messages:
                await copy.write_row(row(message))

    async def _insert(self, statement: str, parameters: Row) -> int:
        async with self._connection.cursor(row_factory=plain_rows) as cursor:
            await cursor.execute(statement, parameters)
            return int((await cursor.fetchone())[0])


class _Asyncpg(AsyncDriver):
    dialect = "postgresql"
    style = "$1"

    async def write_many(self, statements: Statements, messages: Sequence[Message]) -> None:
        if statements.mode == "log" or len(messages) < COPY_FROM:
            await super().write_many(statements, messages)
            return
        schema, _, table = statements.table.rpartition(".")
        rows = [row(message) for message in messages]
        await self._connection.copy_records_to_table(table, schema_name=schema or None, columns=COLUMNS, records=rows)

    async def _insert(self, statement: str, parameters: Row) -> int:
        return int(await self._connection.fetchval(statement, *parameters))


class _SqlAlchemy(AsyncDriver):
    async def write(self, statements: Statements, messages: Message | Sequence[Message]) -> int:
        return int(await self._connection.run_sync(lambda sync: driver_of(sync).write(statements, messages)))

    async def write_many(self, statements: Statements, messages: Sequence[Message]) -> None:
        await self._connection.run_sync(lambda sync: driver_of(sync).write_many(statements, messages))


_DRIVERS: Final[Mapping[str, Callable[[Any], AsyncDriver]]] = {
    "psycopg.AsyncConnection": _Psycopg,
    "asyncpg.connection.Connection": _Asyncpg,
    "asyncpg.pool.PoolConnectionProxy": _Asyncpg,
    "sqlalchemy.ext.asyncio.engine.AsyncConnection": _SqlAlchemy,
    "sqlalchemy.ext.asyncio.session.AsyncSession": _SqlAlchemy,
    "sqlalchemy.ext.asyncio.scoping.async_scoped_session": lambda scoped: _SqlAlchemy(scoped()),
    "asyncmy.connection.Connection": AsyncDriver,
    "aiomysql.connection.Connection": AsyncDriver,
}


def async_driver_of(connection: Any) -> AsyncDriver:
    return recognised(
        connection,
        _DRIVERS,
        "give an asynchronous connection of psycopg, asyncpg, SQLAlchemy (or its session), asyncmy or aiomysql, a"
        " synchronous one to Outbox",
    )
