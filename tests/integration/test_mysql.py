"""Connections to MySQL and MariaDB: parts of statements, transactions, values, and errors in windrow's words."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from uuid import uuid4

import pymysql
import pytest
from psycopg.sql import SQL
from pymysql.constants import SERVER_STATUS

from windrow import embedded
from windrow.database.mysql import Connection, connect
from windrow.errors import DatabaseForbids, DatabaseUnreachable, Interrupted

BRIEFLY = "/*M! SET STATEMENT max_statement_time = 0.1 FOR */ SELECT /*+ MAX_EXECUTION_TIME(100) */"
"""A query that each server breaks off after 0.1 s: MariaDB by the first comment, MySQL by the second."""


@pytest.fixture
def connection(mariadb: embedded.MariaDB) -> Iterator[Connection]:
    with connect(mariadb.url) as connection:
        yield connection


@pytest.fixture
def table(connection: Connection) -> Iterator[str]:
    """Of one column, number, which holds 1."""
    name = f"numbers_{uuid4().hex[:8]}"
    connection.execute(f"CREATE TABLE {name} (number integer PRIMARY KEY); INSERT INTO {name} VALUES (1)")
    yield name
    connection.execute(f"DROP TABLE {name}")


@pytest.fixture
def user(connection: Connection) -> Iterator[str]:
    """One who may connect, with a password that has to be encoded, and nothing else."""
    name = f"user_{uuid4().hex[:8]}"
    connection.execute(f"CREATE USER {name} IDENTIFIED BY 'se:cr/et@%'; GRANT USAGE ON test.* TO {name}")
    yield name
    connection.execute(f"DROP USER {name}")


def as_user(server: embedded.MariaDB, user: str, password: str) -> str:
    return server.url.replace("root@", f"{user}:{password}@")


def numbers(connection: Connection, table: str) -> list[int]:
    return [number for (number,) in connection.execute(f"SELECT number FROM {table} ORDER BY 1").fetchall()]


def in_transaction(connection: Connection) -> bool:
    """As the server tells it with every answer."""
    connection.execute("DO 0")
    return bool(connection._driver.server_status & SERVER_STATUS.SERVER_STATUS_IN_TRANS)


def test_wrong_password_is_told_with_the_server_and_without_the_password(mariadb: embedded.MariaDB, user: str) -> None:
    with pytest.raises(DatabaseUnreachable, match="Access denied") as raised:
        connect(as_user(mariadb, user, "se%3Acr%2Fet"))
    assert str(raised.value).startswith(f"dataSource 127.0.0.1:{mariadb.port}/test: ")
    assert "se:cr" not in str(raised.value)
    assert "se%3Acr" not in str(raised.value)


def test_server_or_database_that_is_not_there_is_told(mariadb: embedded.MariaDB) -> None:
    with pytest.raises(DatabaseUnreachable, match=r"dataSource 127\.0\.0\.1:1/shop: .*\nCheck that the server runs"):
        connect("mysql://relay@127.0.0.1:1/shop")
    with pytest.raises(DatabaseUnreachable, match="Unknown database 'nothing'"):
        connect(mariadb.url.replace("/test", "/nothing"))


def test_password_is_percent_decoded_and_a_right_that_is_missing_is_told(
    mariadb: embedded.MariaDB, connection: Connection, user: str, table: str
) -> None:
    connection.execute(f"GRANT SELECT ON test.{table} TO {user}")
    with connect(as_user(mariadb, user, "se%3Acr%2Fet%40%25")) as theirs:
        assert numbers(theirs, table) == [1]
        with pytest.raises(DatabaseForbids, match=f"INSERT command denied to user '{user}'.*: grant the right"):
            theirs.execute(f"INSERT INTO {table} VALUES (2)")
        assert numbers(theirs, table) == [1]


def test_statement_may_take_longer_than_connecting(mariadb: embedded.MariaDB) -> None:
    with connect(f"{mariadb.url}?connect_timeout=1") as connection:
        assert connection.execute("SELECT sleep(1.5)").fetchone() == (0,)
    with connect(f"{mariadb.url}?read_timeout=1") as connection, pytest.raises(Interrupted, match="timed out"):
        connection.execute("SELECT sleep(5)")


def test_unix_socket_leads_to_the_same_server(mariadb: embedded.MariaDB, connection: Connection) -> None:
    row = connection.execute("SELECT @@datadir, @@socket").fetchone()
    assert row
    with connect(f"mysql://root@/test?unix_socket={Path(*row)}") as local:
        assert local.execute("SELECT @@port").fetchone() == (mariadb.port,)


def test_connection_that_was_killed_or_closed_is_an_interruption(
    mariadb: embedded.MariaDB, connection: Connection
) -> None:
    with connect(mariadb.url) as killed:
        row = killed.execute("SELECT connection_id()").fetchone()
        assert row
        connection.execute(f"KILL {row[0]}")
        for _ in range(2):
            with pytest.raises(Interrupted, match="the database broke off: "):
                killed.execute("SELECT 1")
        with pytest.raises(Interrupted), killed.transaction():
            pass
    with pytest.raises(Interrupted):
        killed.execute("SELECT 1")
    killed.close()


def test_statement_that_is_killed_or_waits_too_long_is_an_interruption(
    mariadb: embedded.MariaDB, connection: Connection, table: str
) -> None:
    with connect(mariadb.url) as other, other.transaction():
        other.execute(f"UPDATE {table} SET number = 2")
        connection.execute("SET SESSION innodb_lock_wait_timeout = 1")
        with pytest.raises(Interrupted, match="Lock wait timeout"):
            connection.execute(f"UPDATE {table} SET number = 3")
    with pytest.raises(Interrupted, match=r"max_statement_time|maximum statement execution time"):
        connection.execute(f"{BRIEFLY} sleep(5) FROM {table}")
    assert numbers(connection, table) == [2]


def test_mistake_in_a_statement_is_the_drivers_own_error(connection: Connection) -> None:
    with pytest.raises(pymysql.ProgrammingError, match="doesn't exist"):
        connection.execute("SELECT * FROM nothing")


@pytest.mark.parametrize(
    ("statement", "rows", "count"),
    [
        ("SELECT 1; SELECT 2", [(2,)], 1),
        ("SELECT 1; INSERT INTO {table} VALUES (2), (3)", [(1,)], 1),
        ("INSERT INTO {table} VALUES (2), (3)", [], 2),
        ("INSERT INTO {table} VALUES (2); INSERT INTO {table} VALUES (3), (4)", [], 2),
        ("START TRANSACTION; UPDATE {table} SET number = 5; SELECT number FROM {table}; COMMIT", [(5,)], 1),
        ("UPDATE {table} SET number = 1", [], 1),
        ("SELECT number FROM {table} WHERE false; DO 0", [], 0),
    ],
)
def test_of_several_parts_the_last_that_returns_rows_counts(
    connection: Connection, table: str, statement: str, rows: list[tuple[int]], count: int
) -> None:
    result = connection.execute(statement.format(table=table))
    assert (result.rowcount, result.fetchall(), result.fetchone()) == (count, rows, None)
    assert not in_transaction(connection)


def test_part_that_fails_takes_back_those_before_it_in_its_transaction(connection: Connection, table: str) -> None:
    with pytest.raises(pymysql.ProgrammingError):
        connection.execute(f"START TRANSACTION; INSERT INTO {table} VALUES (2); SELECT * FROM nothing; COMMIT")
    assert not in_transaction(connection)
    assert numbers(connection, table) == [1]


def test_transaction_is_committed_at_its_end_and_rolled_back_on_an_error(connection: Connection, table: str) -> None:
    with connection.transaction():
        connection.execute(f"INSERT INTO {table} VALUES (2)")
        assert in_transaction(connection)
    with pytest.raises(pymysql.IntegrityError), connection.transaction():
        connection.execute(f"INSERT INTO {table} VALUES (3); INSERT INTO {table} VALUES (3)")
    with connection.transaction():
        with pytest.raises(pymysql.ProgrammingError):
            connection.execute("SELECT * FROM nothing")
        connection.execute(f"INSERT INTO {table} VALUES (4)")
    assert (numbers(connection, table), in_transaction(connection)) == ([1, 2, 4], False)


def test_server_ends_a_transaction_in_which_we_are_silent_and_no_other(connection: Connection) -> None:
    ask = "SELECT @@wait_timeout"
    patient = connection.execute(ask).fetchone()
    with connection.transaction():
        assert connection.execute(ask).fetchone() == (5,)
    assert connection.execute(ask).fetchone() == patient != (5,)


def test_values_come_back_as_they_were_given(connection: Connection) -> None:
    number, moment = uuid4(), datetime(2026, 1, 2, 12, 0, 0, 250_000, timezone(timedelta(hours=2)))
    given = {"uuid": number, "span": timedelta(milliseconds=1500), "moment": moment, "bytes": b"\0\xff'", "text": "ü'%"}
    row = connection.execute(
        "SELECT %(uuid)s AS mark, %(span)s, cast(%(moment)s AS datetime(6)), %(bytes)s, %(text)s", given
    ).fetchone()
    assert row == (number, 1_500_000, moment.astimezone(UTC), b"\0\xff'", "ü'%")
    assert connection.execute("SELECT NULL AS mark").fetchone() == (None,)


def test_lists_stand_behind_in_also_when_they_are_empty(connection: Connection, table: str) -> None:
    statement = SQL(f"SELECT number FROM {table} WHERE number IN %(numbers)s")
    found = [connection.execute(statement, {"numbers": each}).fetchall() for each in ([1, 2], [2], [])]
    assert found == [[(1,)], [], []]


def test_headers_that_cannot_be_read_are_a_name_without_a_content(connection: Connection) -> None:
    def read(names: str | None, contents: str | None) -> object:
        given = {"names": names, "contents": contents}
        return connection.execute("SELECT %(names)s AS header_keys, %(contents)s AS header_values", given).fetchone()

    assert read('["a"]', '["ü"]') == (["a"], ["ü".encode()])
    assert read(None, '{"a": 1}') == (["a"], [b"1"])
    assert read(None, None) == ([], [])
    assert read('["a"]', "[") == (["headers"], [])
