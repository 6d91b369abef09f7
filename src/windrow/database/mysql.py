"""MySQL and MariaDB: connections through PyMySQL, with psycopg's face as far as windrow uses it.

A statement may have several parts, between semicolons. They travel together, so that a transaction that is one
statement begins and ends on the server, and whoever is paused in the meantime holds no lock. What counts is the last
part that returns rows.

Values travel in windrow's own types: UUIDs as 16 bytes, durations as microseconds, times as UTC, lists as what stands
behind IN, headers as JSON (`windrow.headers`).
"""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import UUID

from psycopg.sql import SQL, Composed

from windrow.errors import DatabaseForbids, DatabaseUnreachable, Interrupted
from windrow.extras import needed
from windrow.headers import decoded

if TYPE_CHECKING:
    import pymysql

_PORT: Final = 3306
_CONNECT_WITHIN: Final = 10
_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    **dict.fromkeys(("ssl_ca", "ssl_cert", "ssl_key", "ssl_key_password", "unix_socket"), str),
    **dict.fromkeys(("ssl_disabled", "ssl_verify_cert", "ssl_verify_identity"), lambda text: text in {"1", "true"}),
    **dict.fromkeys(("connect_timeout", "read_timeout", "write_timeout"), int),
}
"""What a data source may say behind its question mark: options of PyMySQL's, and how to read them."""
_UNREADABLE: Final = (
    "dataSource cannot be read: give mysql://user:password@host:3306/database, each percent-encoded, and behind it"
    f" ?option=value with any of {', '.join(_OPTIONS)}"
)
# A peer that vanished without a word is noticed in seconds, not in hours.
_VIGILANT: Final = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 10_000),
)
_SESSION: Final = (
    # Names in standard quotes; what does not fit is refused.
    "SET SESSION sql_mode = 'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00';"
    # MariaDB bounds the ids of a page by the first. The others have rows looked up by their keys, also in a table that
    # looks small: who scans it to change a few rows waits for those that others have not committed.
    "SET SESSION group_concat_max_len = 16777216, max_seeks_for_key = 1"
    "/*M! , join_cache_level = 0 */ /*!80000 , optimizer_switch = 'block_nested_loop=off' */;"
    # Reading sees what is committed and waits for nobody; changing locks the rows that it changes, and no gaps.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
)
_BRIEF: Final = "SET SESSION wait_timeout = 5"
_PATIENT: Final = "SET SESSION wait_timeout = DEFAULT"
# Connection lost, refused or killed; resources short; shutdown; read-only after a failover; lock not had; deadlock.
_PASSING: Final = frozenset(
    {0, 1040, 1053, 1158, 1159, 1160, 1161, 1180, 1184, 1203, 1205, 1213, 1290, 1317, 1792, 1836, 1927, 1969}
    | {2002, 2003, 2006, 2013, 2055, 3024, 4031}
)
_FORBIDDEN: Final = frozenset({1044, 1142, 1143, 1227, 1370})
_UUIDS: Final = frozenset({"epoch", "heir", "leader", "holder", "mark"})


class Result:
    """What a statement returned, all of it."""

    def __init__(self, rows: Sequence[tuple[Any, ...]], rowcount: int, description: Any) -> None:
        self.rowcount, self.description = rowcount, description
        self._rows = list(rows)

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return rows


class Connection:
    """A connection in autocommit. What fails raises windrow's own errors where it may pass or lacks a right."""

    def __init__(self, driver: "pymysql.Connection[Any]") -> None:
        self._driver = driver
        self._in_transaction = False
        self._lock = RLock()
        """One statement at a time, as psycopg does it: a shard's threads share a connection."""

    def execute(
        self,
        statement: SQL | Composed | bytes | str,
        parameters: Mapping[str, Any] | Sequence[Any] | None = None,
        /,
        *,
        prepare: bool | None = None,  # noqa: ARG002 - as psycopg's
        binary: bool = False,  # noqa: ARG002
    ) -> Result:
        match statement:
            case SQL() | Composed():
                text = statement.as_string()
            case bytes():
                text = statement.decode()
            case _:
                text = statement
        given = _all_sent(parameters)
        with self._lock, _translated():
            try:
                return self._run(text, given)
            except BaseException:
                if not self._in_transaction:  # a part failed before the statement's own end
                    with suppress(Exception):
                        self._driver.rollback()
                raise

    def _run(self, text: str, parameters: Any) -> Result:
        with self._driver.cursor() as cursor:
            cursor.execute(text, parameters)
            result = _result(cursor)
            while cursor.nextset():
                if cursor.description or not result.description:
                    result = _result(cursor)
            return result

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is done meanwhile; the server rolls it back if we are silent for long."""
        self.execute(_BRIEF)
        with _translated():
            self._driver.begin()
        self._in_transaction = True
        try:
            yield
            with _translated():
                self._driver.commit()
        except BaseException:
            with suppress(Exception):
                self._driver.rollback()
            raise
        finally:
            self._in_transaction = False
            with suppress(Interrupted):  # then whoever uses it next is told
                self.execute(_PATIENT)

    def close(self) -> None:
        with suppress(Exception):  # closed by the server, or by us before
            self._driver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def connect(data_source: str, application: str = "windrow") -> Connection:
    """Connect, in autocommit; the error names the setting, the server and the remedy."""
    pymysql = _loaded()
    from pymysql.constants import CLIENT, FIELD_TYPE  # noqa: PLC0415 - see _loaded
    from pymysql.converters import conversions, convert_datetime  # noqa: PLC0415

    def moment(text: str) -> datetime | str:
        read = convert_datetime(text)
        return read.replace(tzinfo=UTC) if isinstance(read, datetime) else read

    server, options = _parsed(data_source)
    within = options.get("connect_timeout", _CONNECT_WITHIN)
    try:
        driver: Any = pymysql.connect(
            **server,
            **{**options, "connect_timeout": within, "read_timeout": within},
            autocommit=True,
            charset="utf8mb4",
            program_name=application,
            client_flag=CLIENT.FOUND_ROWS | CLIENT.MULTI_STATEMENTS,
            conv={**conversions, FIELD_TYPE.DATETIME: moment},
            defer_connect=True,
        )
        driver.connect(None if "unix_socket" in options else _socket(server["host"], server["port"], within))
    except (pymysql.MySQLError, OSError) as error:
        raise DatabaseUnreachable(_sentence(_words(error), data_source)) from error
    # Only while we connect is a silent server one that is not there: a statement may take its time.
    driver._read_timeout = options.get("read_timeout")  # noqa: SLF001 - PyMySQL has no other way
    connection = Connection(driver)
    connection.execute(_SESSION)
    return connection


def connect_plainly(data_source: str, application: str = "windrow") -> Any:
    """A connection of PyMySQL's own, not in autocommit, for those who write their statements for it."""
    pymysql = _loaded()
    server, options = _parsed(data_source)
    given = {"connect_timeout": _CONNECT_WITHIN, **options}
    try:
        return pymysql.connect(**server, **given, charset="utf8mb4", program_name=application)
    except (pymysql.MySQLError, OSError) as error:
        raise DatabaseUnreachable(_sentence(_words(error), data_source)) from error


def _loaded() -> Any:
    """PyMySQL, which nobody needs who has no MySQL."""
    with needed("mysql"):
        import pymysql  # noqa: PLC0415 - see above
    return pymysql


def where(data_source: str) -> str:
    """The server and database that a data source names, without user and password."""
    try:
        server, options = _parsed(data_source)
    except DatabaseUnreachable:
        return "(unreadable)"
    host = f"[{server['host']}]" if ":" in server["host"] else server["host"]
    at = options.get("unix_socket") or f"{host}:{server['port']}"
    return f"{at}/{server['database']}"


def _parsed(data_source: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The server, and PyMySQL's options for it."""
    try:
        url = urlsplit(data_source.strip())
        server = {
            "host": url.hostname or "localhost",
            "port": url.port or _PORT,
            "user": unquote(url.username or "") or None,
            "password": unquote(url.password or ""),
            "database": unquote(url.path.strip("/")),
        }
        given = dict(parse_qsl(url.query, keep_blank_values=True, strict_parsing=bool(url.query)))
        options = {name: _OPTIONS[name](value) for name, value in given.items()}
    except (ValueError, KeyError):
        raise DatabaseUnreachable(_UNREADABLE) from None
    if "@" in url.path:  # a password with a slash in it
        raise DatabaseUnreachable(_UNREADABLE)
    if not server["database"]:
        raise DatabaseUnreachable("dataSource names no database: give mysql://user@host:3306/database")
    return server, options


def _socket(host: str, port: int, within: int) -> socket.socket:
    connection = socket.create_connection((host, port), within)
    for option in _VIGILANT:
        connection.setsockopt(*option)
    connection.settimeout(None)
    return connection


def _all_sent(parameters: Mapping[str, Any] | Sequence[Any] | None) -> Any:
    if isinstance(parameters, Mapping):
        return {name: _sent(value) for name, value in parameters.items()}
    return parameters and tuple(map(_sent, parameters))


def _sent(value: Any) -> Any:
    """A parameter as PyMySQL takes it."""
    match value:
        case UUID():
            return value.bytes
        case timedelta():
            return value // timedelta(microseconds=1)
        case datetime() if value.tzinfo:
            return value.astimezone(UTC).replace(tzinfo=None)
        case list() | tuple():
            return tuple(map(_sent, value)) or (None,)
        case _:
            return value


def _result(cursor: Any) -> Result:
    description = cursor.description
    rows = cursor.fetchall() if description else ()
    names = [column[0] for column in description or ()]
    if "header_keys" in names:
        rows = _with_headers(rows, names.index("header_keys"), names.index("header_values"))
    if uuids := [place for place, name in enumerate(names) if name in _UUIDS]:
        rows = [_with_uuids(row, uuids) for row in rows]
    return Result(rows, cursor.rowcount, description)


def _with_uuids(row: tuple[Any, ...], places: Sequence[int]) -> tuple[Any, ...]:
    return tuple(
        UUID(bytes=value) if place in places and value is not None else value for place, value in enumerate(row)
    )


def _with_headers(rows: Sequence[tuple[Any, ...]], names: int, contents: int) -> list[tuple[Any, ...]]:
    """Headers that cannot be read become a name without a content: what the relay makes a dead letter of."""
    read = []
    for row in rows:
        columns = list(row)
        try:
            columns[names], columns[contents] = decoded(row[names], row[contents])
        except ValueError:
            columns[names], columns[contents] = ["headers"], []
        read.append(tuple(columns))
    return read


@contextmanager
def _translated() -> Iterator[None]:
    """The driver's errors as windrow's own, where they may pass or a right is missing; others propagate."""
    pymysql = _loaded()
    try:
        yield
    except pymysql.MySQLError as error:
        number = error.args[0] if error.args else 0
        if number in _FORBIDDEN:
            raise DatabaseForbids(f"{_words(error)}: grant the right to the user that dataSource names") from error
        if number in _PASSING:
            raise Interrupted(f"the database broke off: {_words(error)}") from error
        raise


def _words(error: Exception) -> str:
    return str(error.args[-1]).strip() if error.args else type(error).__name__


def _sentence(what: str, data_source: str) -> str:
    return (
        f"dataSource {where(data_source)}: {what}\n"
        "Check that the server runs and that host, port, database, user and password are right."
    )
