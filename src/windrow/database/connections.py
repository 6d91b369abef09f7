"""Connections to whichever database the data source names, with one face: that of psycopg, as far as it is used.

Invariant: no message that leaves this package carries a password.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, LiteralString, Protocol, Self, TypeAlias

import adbc_driver_manager
import psycopg
from psycopg.sql import SQL, Composed

from windrow.database import mysql, postgres
from windrow.errors import DatabaseForbids, Interrupted
from windrow.settings import dialect_of

Statement: TypeAlias = SQL | Composed | bytes | LiteralString

_FORBIDDEN = "42501"
# Connection lost or refused; a server that is a standby now; silent for too long in a transaction; serialisation
# failure; resources short; shutdown under way.
_PASSING = ("08", "25006", "25P03", "40", "53", "57")


class Cursor(Protocol):
    """What a statement returned."""

    @property
    def rowcount(self) -> int: ...

    @property
    def description(self) -> Any:
        """None where the statement returns no rows."""

    def fetchone(self) -> tuple[Any, ...] | None: ...

    def fetchall(self) -> list[tuple[Any, ...]]: ...


class Connection(Protocol):
    """A connection in autocommit."""

    def execute(
        self, statement: Statement, parameters: Any = None, /, *, prepare: bool | None = None, binary: bool = False
    ) -> Cursor: ...

    def transaction(self) -> AbstractContextManager[object]:
        """Commit what is done meanwhile, or roll it back where that fails."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def connect(data_source: str, application: str = "windrow") -> Connection:
    """Connect, in autocommit; the error names the setting, the server and the remedy."""
    if dialect_of(data_source) == "mysql":
        return mysql.connect(data_source, application)
    return postgres.connect(data_source, application)


def connect_plainly(data_source: str, application: str = "windrow") -> Any:
    """A connection of the driver's own (psycopg, PyMySQL), not in autocommit."""
    if dialect_of(data_source) == "mysql":
        return mysql.connect_plainly(data_source, application)
    return postgres.connect(data_source, application, autocommit=False)


def where(data_source: str) -> str:
    """The server and database that a data source names, without user and password."""
    return mysql.where(data_source) if dialect_of(data_source) == "mysql" else postgres.where(data_source)


@contextmanager
def brief_transaction(connection: Connection) -> Iterator[None]:
    """A transaction that the server ends if we are silent in it: who is paused holds up nobody."""
    with connection.transaction():
        if not isinstance(connection, mysql.Connection):  # there every transaction is brief
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = '5s'")
        yield


def settle_plans(connection: Connection) -> None:
    """Have statements planned as they are written for; MySQL plans by their hints."""
    if not isinstance(connection, mysql.Connection):
        connection.execute(postgres.settled().encode())


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise `Interrupted` for errors that may pass on a new connection; others propagate."""
    try:
        yield
    except (psycopg.Error, adbc_driver_manager.Error) as error:
        state = error.sqlstate
        if state == _FORBIDDEN:
            raise DatabaseForbids(f"{str(error).strip()}: grant the right to the user that dataSource names") from error
        if state and not state.startswith(_PASSING):
            raise
        raise Interrupted(f"the database broke off: {str(error).strip()}") from error
