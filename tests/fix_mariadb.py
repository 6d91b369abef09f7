"""A database of its own on the shared MariaDB, for each test that wants one."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pymysql
import pytest

from windrow import embedded


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
