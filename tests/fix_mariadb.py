"""One MariaDB for all tests that do not break it, and a database of its own for each test."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pymysql
import pytest

from windrow import embedded

OUTBOX = """
CREATE TABLE outbox (
  id            BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  create_time   DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  topic         VARCHAR(249) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  `key`         LONGBLOB,
  value         LONGBLOB,
  header_keys   JSON,
  header_values JSON,
  `partition`   INT,
  `timestamp`   DATETIME(6),
  mark          BINARY(16)
) ENGINE=InnoDB
"""


@pytest.fixture(scope="session")
def mariadb() -> Iterator[embedded.MariaDB]:
    with embedded.MariaDB() as server:
        yield server


@pytest.fixture
def maria_database(mariadb: embedded.MariaDB) -> Iterator[str]:
    """A database of the test's own, by name."""
    name = f"test_{uuid4().hex[:12]}"
    with closing(maria_connect(mariadb)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        yield name
        cursor.execute(f"DROP DATABASE {name}")


def maria_connect(server: embedded.MariaDB, database: str | None = None) -> "pymysql.Connection[Any]":
    return pymysql.connect(host="127.0.0.1", port=server.port, user="root", database=database, autocommit=True)
