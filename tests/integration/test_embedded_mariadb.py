"""The embedded MariaDB."""

from collections.abc import Iterator

import pymysql
import pytest

from windrow import embedded


@pytest.fixture(scope="module")
def mariadb() -> Iterator[embedded.MariaDB]:
    with embedded.MariaDB(settings={"max_connections": 50}) as server:
        yield server


def ask(server: embedded.MariaDB, *statements: str) -> object:
    """The first value that the last statement returns."""
    connection = pymysql.connect(
        host="127.0.0.1", port=server.port, user="root", database="test", autocommit=True, read_timeout=2
    )
    with connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        row = cursor.fetchone()
    return None if row is None else row[0]


def test_committed_rows_survive_a_kill(mariadb: embedded.MariaDB) -> None:
    assert mariadb.url == f"mysql://root@127.0.0.1:{mariadb.port}/test"
    ask(mariadb, "CREATE TABLE survivor (answer INT PRIMARY KEY)", "INSERT INTO survivor VALUES (42)")
    mariadb.kill()
    with pytest.raises(pymysql.OperationalError, match="refused"):
        ask(mariadb, "SELECT 1")
    mariadb.restart()
    assert ask(mariadb, "SELECT answer FROM survivor") == 42


def test_paused_server_stands_still_and_goes_on_when_resumed(mariadb: embedded.MariaDB) -> None:
    mariadb.pause()
    try:
        with pytest.raises(pymysql.OperationalError, match="timed out"):
            ask(mariadb, "SELECT 1")
    finally:
        mariadb.resume()
    assert ask(mariadb, "SELECT 1") == 1


def test_is_durable_and_takes_settings(mariadb: embedded.MariaDB) -> None:
    assert ask(mariadb, "SELECT @@innodb_flush_log_at_trx_commit") == 1
    assert ask(mariadb, "SELECT @@max_connections") == 50
