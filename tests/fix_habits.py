"""Every habit of writing: a library, in the way its users open connections and transactions.

A habit does a service's work in one transaction: it inserts an order, and hands its connection to whatever writes
messages on it. It commits, or rolls back; what the writers returned is returned.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC
from typing import Any
from uuid import uuid4

import asyncmy
import asyncpg
import django
import django.conf
import django.db
import mysql.connector
import psycopg
import psycopg2
import psycopg2.extras
import pymysql
import pytest
from django.db import transaction
from psycopg.rows import scalar_row
from sqlalchemy import URL, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from fix_mariadb import maria_connect
from windrow import AsyncOutbox, Outbox, embedded
from windrow.database.migrations import migrate
from windrow.database.mysql import connect as connect_to_mariadb
from windrow.database.postgres import connect
from windrow.headers import decoded
from windrow.outbox.statement import COLUMNS
from windrow.settings import Settings

ORDER = "INSERT INTO orders VALUES (1)"
Row = tuple[Any, ...]
Write = Callable[[Any, Any], Any]
"""Something that writes messages with an outbox, on a connection; both asynchronous if the habit is."""


@dataclass(frozen=True)
class Database:
    """A database of the test's own, with an outbox and a table of orders."""

    dialect: str
    port: int
    name: str
    execute: Callable[[str], list[Row]]

    @property
    def user(self) -> str:
        return {"postgresql": "postgres", "mysql": "root"}[self.dialect]

    @property
    def url(self) -> str:
        return f"{self.dialect}://{self.user}@127.0.0.1:{self.port}/{self.name}"

    def sqlalchemy(self, driver: str) -> URL:
        name = f"{self.dialect}+{driver}"
        return URL.create(name, username=self.user, host="127.0.0.1", port=self.port, database=self.name)

    def given(self, name: str = "database") -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.port, "user": self.user, name: self.name}

    def orders(self) -> int:
        return int(self.execute("SELECT count(*) FROM orders")[0][0])

    def rows(self) -> list[Row]:
        """All rows of the outbox, in the order of their ids, in one form for all databases."""
        columns = ", ".join(f'"{column}"' for column in ("id", *COLUMNS))
        return [self._uniform(*row) for row in self.execute(f"SELECT {columns} FROM outbox ORDER BY id")]

    def _uniform(self, *row: Any) -> Row:
        *first, names, contents, partition, timestamp = row
        if self.dialect == "mysql":
            names, contents = decoded(names, contents)
            timestamp = timestamp and timestamp.replace(tzinfo=UTC)
        return (*first, names, contents, partition, timestamp and timestamp.astimezone(UTC))


@pytest.fixture
def postgres_outbox(postgres: embedded.Postgres) -> Iterator[Database]:
    name = f"test_{uuid4().hex[:12]}"
    port = postgres.port
    url = f"postgresql://postgres@127.0.0.1:{port}/{name}"
    with connect(postgres.url) as server:
        server.execute(f"CREATE DATABASE {name} STRATEGY file_copy".encode())  # of two, the quick one without a disk
        with connect(url) as connection:
            settings = Settings.load(
                environment={}, data_source=url, base_kafka_config={"bootstrap.servers": "none:9092"}
            )
            migrate(connection, settings)
            connection.execute("CREATE TABLE orders (number integer)")

            def execute(statement: str) -> list[Row]:
                cursor = connection.execute(statement.encode())
                return cursor.fetchall() if cursor.description else []

            yield Database("postgresql", port, name, execute)
        server.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


@pytest.fixture
def maria_outbox(mariadb: embedded.MariaDB, maria_database: str) -> Iterator[Database]:
    url = f"mysql://root@127.0.0.1:{mariadb.port}/{maria_database}"
    settings = Settings.load(environment={}, data_source=url, base_kafka_config={"bootstrap.servers": "none:9092"})
    with connect_to_mariadb(url) as connection:
        migrate(connection, settings)
    with closing(maria_connect(mariadb, maria_database)) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')")
        cursor.execute("CREATE TABLE orders (number integer)")

        def execute(statement: str) -> list[Row]:
            cursor.execute(statement)
            return list(cursor.fetchall())

        yield Database("mysql", mariadb.port, maria_database, execute)


class Undone(Exception):
    """The service changes its mind: rolls its transaction back."""


def with_psycopg(database: Database, write: Write, **options: Any) -> Any:
    with psycopg.connect(database.url, **options) as connection:
        connection.execute(ORDER)
        return write(Outbox(), connection)


def with_psycopg_and_rows_of_its_own(database: Database, write: Write) -> Any:
    return with_psycopg(database, write, row_factory=scalar_row)


def with_psycopg_pipeline(database: Database, write: Write) -> Any:
    with psycopg.connect(database.url) as connection, connection.pipeline():
        connection.execute(ORDER)
        return write(Outbox(), connection)


def with_psycopg2(database: Database, write: Write) -> Any:
    connection = psycopg2.connect(database.url, cursor_factory=psycopg2.extras.RealDictCursor)
    with closing(connection), connection, connection.cursor() as cursor:
        cursor.execute(ORDER)
        return write(Outbox(), connection)


def _with_core(database: Database, write: Write, driver: str) -> Any:
    engine = create_engine(database.sqlalchemy(driver), poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text(ORDER))
        return write(Outbox(), connection)


def with_sqlalchemy(database: Database, write: Write) -> Any:
    return _with_core(database, write, {"postgresql": "psycopg", "mysql": "pymysql"}[database.dialect])


def with_sqlalchemy_and_psycopg2(database: Database, write: Write) -> Any:
    return _with_core(database, write, "psycopg2")


def with_sqlalchemy_and_connector(database: Database, write: Write) -> Any:
    return _with_core(database, write, "mysqlconnector")


def with_session(database: Database, write: Write) -> Any:
    driver = {"postgresql": "psycopg", "mysql": "pymysql"}[database.dialect]
    engine = create_engine(database.sqlalchemy(driver), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        session.execute(text(ORDER))
        return write(Outbox(), session)


def with_scoped_session(database: Database, write: Write) -> Any:
    session = scoped_session(sessionmaker(create_engine(database.sqlalchemy("psycopg"), poolclass=NullPool)))
    try:
        with session.begin():
            session.execute(text(ORDER))
            return write(Outbox(), session)
    finally:
        session.remove()


def django_connection(database: Database, alias: str) -> Any:
    """Django's own connection of that alias, to this database."""
    if not django.conf.settings.configured:
        pymysql.install_as_MySQLdb()
        django.conf.settings.configure(USE_TZ=True, DATABASES={})
        django.setup()
    given = {name.upper(): value for name, value in database.given("name").items()}
    given["ENGINE"] = f"django.db.backends.{database.dialect}"
    connections = django.db.connections
    connections.settings[alias] = connections.configure_settings({"default": {}, "it": given})["it"]
    connections[alias] = connections.create_connection(alias)
    return connections[alias]


def with_django(database: Database, write: Write) -> Any:
    connection = django_connection(database, database.name)
    try:
        with transaction.atomic(using=database.name):
            with connection.cursor() as cursor:
                cursor.execute(ORDER)
            return write(Outbox(), connection)
    finally:
        connection.close()


def with_pymysql(database: Database, write: Write) -> Any:
    connection = pymysql.connect(**database.given())
    return _with_cursors(connection, write)


def with_mysql_connector(database: Database, write: Write) -> Any:
    return _with_cursors(mysql.connector.connect(**database.given(), collation="utf8mb4_general_ci"), write)


def with_pure_mysql_connector(database: Database, write: Write) -> Any:
    given = database.given() | {"collation": "utf8mb4_general_ci", "use_pure": True}
    return _with_cursors(mysql.connector.connect(**given), write)


def _with_cursors(connection: Any, write: Write) -> Any:
    with closing(connection):
        with closing(connection.cursor()) as cursor:
            cursor.execute(ORDER)
        try:
            result = write(Outbox(), connection)
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
        return result


async def with_async_psycopg(database: Database, write: Write) -> Any:
    async with await psycopg.AsyncConnection.connect(database.url) as connection:
        await connection.execute(ORDER)
        return await write(AsyncOutbox(), connection)


async def with_asyncpg(database: Database, write: Write) -> Any:
    connection = await asyncpg.connect(database.url)
    try:
        async with connection.transaction():
            await connection.execute(ORDER)
            return await write(AsyncOutbox(), connection)
    finally:
        await connection.close()


async def with_asyncpg_pool(database: Database, write: Write) -> Any:
    async with (
        asyncpg.create_pool(database.url, min_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        await connection.execute(ORDER)
        return await write(AsyncOutbox(), connection)


async def _with_async_core(database: Database, write: Write, driver: str) -> Any:
    engine = create_async_engine(database.sqlalchemy(driver), poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.execute(text(ORDER))
        return await write(AsyncOutbox(), connection)


async def with_async_sqlalchemy(database: Database, write: Write) -> Any:
    return await _with_async_core(database, write, {"postgresql": "asyncpg", "mysql": "asyncmy"}[database.dialect])


async def with_async_sqlalchemy_and_psycopg(database: Database, write: Write) -> Any:
    return await _with_async_core(database, write, "psycopg")


async def with_async_session(database: Database, write: Write) -> Any:
    driver = {"postgresql": "asyncpg", "mysql": "asyncmy"}[database.dialect]
    engine = create_async_engine(database.sqlalchemy(driver), poolclass=NullPool)
    async with AsyncSession(engine) as session, session.begin():
        await session.execute(text(ORDER))
        return await write(AsyncOutbox(), session)


async def with_async_scoped_session(database: Database, write: Write) -> Any:
    engine = create_async_engine(database.sqlalchemy("asyncpg"), poolclass=NullPool)
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=asyncio.current_task)
    try:
        async with session.begin():
            await session.execute(text(ORDER))
            return await write(AsyncOutbox(), session)
    finally:
        await session.remove()


async def with_asyncmy(database: Database, write: Write) -> Any:
    connection = await asyncmy.connect(**database.given())
    try:
        async with connection.cursor() as cursor:
            await cursor.execute(ORDER)
        result = await write(AsyncOutbox(), connection)
        await connection.commit()
        return result
    finally:
        connection.close()


_ON_POSTGRES = (
    with_psycopg,
    with_psycopg_and_rows_of_its_own,
    with_psycopg_pipeline,
    with_psycopg2,
    with_sqlalchemy,
    with_sqlalchemy_and_psycopg2,
    with_session,
    with_scoped_session,
    with_django,
    with_async_psycopg,
    with_asyncpg,
    with_asyncpg_pool,
    with_async_sqlalchemy,
    with_async_sqlalchemy_and_psycopg,
    with_async_session,
    with_async_scoped_session,
)
_ON_MARIA = (
    with_pymysql,
    with_mysql_connector,
    with_pure_mysql_connector,
    with_sqlalchemy,
    with_sqlalchemy_and_connector,
    with_session,
    with_django,
    with_asyncmy,
    with_async_sqlalchemy,
    with_async_session,
)
_HABITS = [("postgres_outbox", habit) for habit in _ON_POSTGRES] + [("maria_outbox", habit) for habit in _ON_MARIA]


@dataclass(frozen=True)
class Service:
    """A service of one habit, on a database of its own."""

    database: Database
    habit: Callable[[Database, Write], Any]

    def place(self, write: Write) -> Any:
        """One transaction, committed: an order, and what is written."""
        result = self.habit(self.database, write)
        return asyncio.run(result) if asyncio.iscoroutine(result) else result

    def place_and_undo(self, write: Write) -> None:
        """The same, rolled back."""

        def and_undo(outbox: Any, connection: Any) -> Any:
            return _undone(write(outbox, connection))

        with pytest.raises(Undone):
            self.place(and_undo)


def _undone(result: Any) -> Any:
    if asyncio.iscoroutine(result):
        return _undone_later(result)
    raise Undone


async def _undone_later(result: Awaitable[Any]) -> None:
    await result
    raise Undone


@pytest.fixture(
    params=_HABITS, ids=lambda each: f"{each[0].partition('_')[0]} {each[1].__name__.removeprefix('with_')}"
)
def service(request: pytest.FixtureRequest) -> Service:
    """A service of each habit in turn."""
    fixture, habit = request.param
    return Service(request.getfixturevalue(fixture), habit)


def written(rows: Sequence[Row]) -> list[Row]:
    """Rows without their ids."""
    return [row[1:] for row in rows]
