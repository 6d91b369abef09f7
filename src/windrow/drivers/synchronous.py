"""How each library executes statements on a connection of its own: one small class a habit."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any, Final

from windrow.drivers.recognition import COPY_FROM, Copy, Row, Style, dialect_of, recognised
from windrow.table import Dialect


class Driver:
    """A connection whose cursors take `%s`: PyMySQL, mysqlclient, MySQL Connector/Python."""

    dialect: Dialect = "mysql"
    style: Style = "%s"

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def insert(self, statement: str, parameters: Row) -> int:
        """Execute an INSERT; the id of its first row."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement, parameters)
            if cursor.description is None:
                return int(cursor.lastrowid)
            first = cursor.fetchone()
            return int(first["id"] if isinstance(first, dict) else first[0])

    def fetch(self, statement: str, parameters: Row = ()) -> list[Row]:
        """Execute a statement that returns rows; those, as tuples."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement, parameters)
            return [tuple(row.values() if isinstance(row, dict) else row) for row in cursor.fetchall()]

    def change(self, statement: str, parameters: Row = ()) -> int:
        """Execute a statement; how many rows it changed, which on PostgreSQL are those that it returns."""
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(statement, parameters)
            return int(cursor.rowcount)

    def takes_copy(self, _rows: int) -> bool:
        """Whether so many rows should be copied."""
        return False

    def copy(self, into: Copy, rows: Iterable[Row]) -> None:
        raise NotImplementedError


class _Psycopg2(Driver):
    dialect = "postgresql"


class _Psycopg(Driver):
    dialect = "postgresql"

    def insert(self, statement: str, parameters: Row) -> int:
        cursor = self._connection.cursor(row_factory=plain_rows)
        return int(cursor.execute(statement, parameters).fetchone()[0])

    def fetch(self, statement: str, parameters: Row = ()) -> list[Row]:
        cursor = self._connection.cursor(row_factory=plain_rows)
        return list(cursor.execute(statement, parameters).fetchall())

    def change(self, statement: str, parameters: Row = ()) -> int:
        cursor = self._connection.cursor(row_factory=plain_rows).execute(statement, parameters)
        if returned(statement):
            return len(cursor.fetchall())  # in a pipeline there is no other way to know
        return 0

    def takes_copy(self, rows: int) -> bool:
        return rows >= COPY_FROM and not self._connection.pgconn.pipeline_status

    def copy(self, into: Copy, rows: Iterable[Row]) -> None:
        with self._connection.cursor() as cursor, cursor.copy(into.statement) as copy:
            copy.set_types(into.types)
            for row in rows:
                copy.write_row(row)


class _Django(Driver):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.dialect = dialect_of(connection.vendor)


class _SqlAlchemy(Driver):
    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self.dialect = dialect_of(connection.dialect.name)
        self.style = "$1" if connection.dialect.paramstyle == "numeric_dollar" else "%s"

    def insert(self, statement: str, parameters: Row) -> int:
        result = self._connection.exec_driver_sql(statement, parameters)
        return int(result.scalar() if result.returns_rows else result.lastrowid)

    def fetch(self, statement: str, parameters: Row = ()) -> list[Row]:
        return [tuple(row) for row in self._connection.exec_driver_sql(statement, parameters).all()]

    def change(self, statement: str, parameters: Row = ()) -> int:
        result = self._connection.exec_driver_sql(statement, parameters)
        return len(result.all()) if result.returns_rows else int(result.rowcount)


class _Session(_SqlAlchemy):
    """What the session holds back is flushed first: the locks of its rows have to come before the message's id."""

    def __init__(self, session: Any) -> None:
        if session.autoflush:
            session.flush()
        super().__init__(session.connection())


def returned(statement: str) -> bool:
    """Whether a statement of ours returns the rows that it changes."""
    return " RETURNING " in statement


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
        " Connector/Python, an asynchronous one to AsyncOutbox or AsyncInbox",
    )
