"""How each library executes the statements on a connection of its own: one small class a habit."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from typing import Any, Final

from windrow.message import Message
from windrow.outbox.recognition import dialect_of, recognised
from windrow.outbox.statement import TYPES, Row, Statements, Style, batches, row
from windrow.table import Dialect

COPY_FROM: Final = 20
"""From so many messages on COPY, which takes a round trip more, is faster than one INSERT of all."""


class Driver:
    """A connection whose cursors take `%s`: PyMySQL, mysqlclient, MySQL Connector/Python."""

    dialect: Dialect = "mysql"
    style: Style = "%s"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def write(self, statements: Statements, messages: Message | Sequence[Message]) -> int:
        """Write them in one statement; the id of the first."""
        return self._insert(*statements.statement(messages, self.dialect, self.style))

    def write_many(self, statements: Statements, messages: Sequence[Message]) -> None:
        for batch in batches(messages):
            self.write(statements, batch)

    def _insert(self, statement: str, parameters: Row) -> int:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement, parameters)
            if cursor.description is None:
                return int(cursor.lastrowid)
            first = cursor.fetchone()
            return int(first["id"] if isinstance(first, dict) else first[0])


class _Psycopg2(Driver):
    dialect = "postgresql"


class _Psycopg(Driver):
    dialect = "postgresql"

    def write_many(self, statements: Statements, messages: Sequence[Message]) -> None:
        if not takes_copy(self._connection, statements, messages):
            super().write_many(statements, messages)
            return
        with self._connection.cursor() as cursor, cursor.copy(statements.copy) as copy:
            copy.set_types(TYPES)
            for message in messages:
                copy.write_row(row(message))

    def _insert(self, statement: str, parameters: Row) -> int:
        cursor = self._connection.cursor(row_factory=plain_rows)
        return int(cursor.execute(statement, parameters).fetchone()[0])


class _Django(Driver):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.dialect = dialect_of(connection.vendor)


class _SqlAlchemy(Driver):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.dialect = dialect_of(connection.dialect.name)
        self.style = "$1" if connection.dialect.paramstyle == "numeric_dollar" else "%s"

    def _insert(self, statement: str, parameters: Row) -> int:
        result = self._connection.exec_driver_sql(statement, parameters)
        return int(result.scalar() if result.returns_rows else result.lastrowid)


class _Session(_SqlAlchemy):
    """What the session holds back is flushed first: the locks of its rows have to come before the message's id."""

    def __init__(self, session: Any) -> None:
        if session.autoflush:
            session.flush()
        super().__init__(session.connection())


def takes_copy(connection: Any, statements: Statements, messages: Sequence[Message]) -> bool:
    """Whether psycopg should copy the messages; in a pipeline it cannot."""
    return statements.mode == "table" and len(messages) >= COPY_FROM and not connection.pgconn.pipeline_status


def plain_rows(_cursor: Any) -> Callable[[Iterable[Any]], Row]:
    """A row factory for psycopg: tuples, whatever the connection's own makes."""
    return tuple


_DRIVERS: Final[Mapping[str, type[Driver]]] = {
    "psycopg.Connection": _Psycopg,
    "psycopg2.extensions.connection": _Psycopg2,
    "sqlalchemy.engine.base.Connection": _SqlAlchemy,
    "sqlalchemy.orm.session.Session": _Session,
    "sqlalchemy.orm.scoping.scoped_session": _Session,
    "django.db.backends.base.base.BaseDatabaseWrapper": _Django,
    "django.utils.connection.ConnectionProxy": _Django,
    "pymysql.connections.Connection": Driver,
    "MySQLdb.connections.Connection": Driver,
    "mysql.connector.abstracts.MySQLConnectionAbstract": Driver,
    "mysql.connector.pooling.PooledMySQLConnection": Driver,
}


def driver_of(connection: Any) -> Driver:
    return recognised(
        connection,
        _DRIVERS,
        "give a connection of psycopg, psycopg2, SQLAlchemy (or its session), Django, PyMySQL, mysqlclient or MySQL"
        " Connector/Python, an asynchronous one to AsyncOutbox",
    )
