"""As `synchronous`, for asynchronous connections. Those of SQLAlchemy run the synchronous drivers by themselves."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from windrow.drivers.recognition import COPY_FROM, Copy, Row, Style, recognised
from windrow.drivers.synchronous import Driver, driver_of, plain_rows, returned
from windrow.table import Dialect


class AsyncDriver:
    """A connection whose asynchronous cursors take `%s`: asyncmy, aiomysql."""

    dialect: Dialect = "mysql"
    style: Style = "%s"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def prepare(self) -> None:
        """Learn the dialect, where only the connection knows it."""

    async def insert(self, statement: str, parameters: Row) -> int:
        """Execute an INSERT; the id of its first row."""
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, parameters)
            return int(cursor.lastrowid)

    async def fetch(self, statement: str, parameters: Row = ()) -> list[Row]:
        """Execute a statement that returns rows; those, as tuples."""
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, parameters)
            return [tuple(row.values() if isinstance(row, dict) else row) for row in await cursor.fetchall()]

    async def change(self, statement: str, parameters: Row = ()) -> int:
        """Execute a statement; how many rows it changed, which on PostgreSQL are those that it returns."""
        async with self._connection.cursor() as cursor:
            await cursor.execute(statement, parameters)
            return int(cursor.rowcount)

    def takes_copy(self, _rows: int) -> bool:
        """Whether so many rows should be copied."""
        return False

    async def copy(self, into: Copy, rows: Iterable[Row]) -> None:
        raise NotImplementedError


class _Psycopg(AsyncDriver):
    dialect = "postgresql"

    async def insert(self, statement: str, parameters: Row) -> int:
        async with self._connection.cursor(row_factory=plain_rows) as cursor:
            await cursor.execute(statement, parameters)
            return int((await cursor.fetchone())[0])

    async def fetch(self, statement: str, parameters: Row = ()) -> list[Row]:
        async with self._connection.cursor(row_factory=plain_rows) as cursor:
            await cursor.execute(statement, parameters)
            return list(await cursor.fetchall())

    async def change(self, statement: str, parameters: Row = ()) -> int:
        if returned(statement):
            return len(await self.fetch(statement, parameters))
        await self._connection.execute(statement, parameters)
        return 0

    def takes_copy(self, rows: int) -> bool:
        return rows >= COPY_FROM and not self._connection.pgconn.pipeline_status

    async def copy(self, into: Copy, rows: Iterable[Row]) -> None:
        async with self._connection.cursor() as cursor, cursor.copy(into.statement) as copy:
            copy.set_types(into.types)
            for row in rows:
                await copy.write_row(row)


class _Asyncpg(AsyncDriver):
    dialect = "postgresql"
    style = "$1"

    async def insert(self, statement: str, parameters: Row) -> int:
        return int(await self._connection.fetchval(statement, *parameters))

    async def fetch(self, statement: str, parameters: Row = ()) -> list[Row]:
        return [tuple(row) for row in await self._connection.fetch(statement, *parameters)]

    async def change(self, statement: str, parameters: Row = ()) -> int:
        return len(await self._connection.fetch(statement, *parameters))

    def takes_copy(self, rows: int) -> bool:
        return rows >= COPY_FROM

    async def copy(self, into: Copy, rows: Iterable[Row]) -> None:
        schema, _, table = into.table.rpartition(".")
        await self._connection.copy_records_to_table(
            table, schema_name=schema or None, columns=into.columns, records=list(rows)
        )


class _SqlAlchemy(AsyncDriver):
    """Each call is one run of the synchronous driver, whose dialect is learnt once."""

    async def prepare(self) -> None:
        def learn(sync: Any) -> tuple[Dialect, Style]:
            driver = driver_of(sync)
            return driver.dialect, driver.style

        self.dialect, self.style = await self._connection.run_sync(learn)

    async def insert(self, statement: str, parameters: Row) -> int:
        return int(await self._run(lambda driver: driver.insert(statement, parameters)))

    async def fetch(self, statement: str, parameters: Row = ()) -> list[Row]:
        return list(await self._run(lambda driver: driver.fetch(statement, parameters)))

    async def change(self, statement: str, parameters: Row = ()) -> int:
        return int(await self._run(lambda driver: driver.change(statement, parameters)))

    async def _run(self, call: Callable[[Driver], Any]) -> Any:
        return await self._connection.run_sync(lambda sync: call(driver_of(sync)))


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


async def async_driver_of(connection: Any) -> AsyncDriver:
    driver = recognised(
        connection,
        _DRIVERS,
        "give an asynchronous connection of psycopg, asyncpg, SQLAlchemy (or its session), asyncmy or aiomysql, a"
        " synchronous one to Outbox or Inbox",
    )
    await driver.prepare()
    return driver
