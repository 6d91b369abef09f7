"""One PostgreSQL, one MariaDB, one Kafka broker and one Spark for all tests that do not break them."""

import os
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from fix_mysql import MySQL
from windrow import embedded
from windrow.spark.session import session

ENOUGH_FOR_LARGE_MESSAGES = {"message.max.bytes": 20_000_000}
# A commit is handed to the kernel, which keeps it whatever becomes of the server; only a machine that fails loses it,
# and no test has one. The lab's servers wait for the disk, as in production.
NOT_TO_THE_DISK = {"fsync": "off"}
NOT_TO_THE_DISK_OF_MARIADB = {"innodb_flush_log_at_trx_commit": 2}


@pytest.fixture(scope="session")
def postgres() -> Iterator[embedded.Postgres]:
    with embedded.Postgres(settings=NOT_TO_THE_DISK) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[embedded.MariaDB]:
    """MySQL in its place, where `WINDROW_TEST_MYSQLD` names its program."""
    program = os.environ.get("WINDROW_TEST_MYSQLD")
    with MySQL(program) if program else embedded.MariaDB(settings=NOT_TO_THE_DISK_OF_MARIADB) as server:
        yield server


@pytest.fixture(scope="session")
def kafka() -> Iterator[embedded.Kafka]:
    with embedded.Kafka(settings=ENOUGH_FOR_LARGE_MESSAGES) as server:
        yield server


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # A shuffle has 200 parts where nobody says otherwise, and a stream's state a store in each; here are a few rows.
    running = session({"master": "local[4]", "spark.sql.shuffle.partitions": "4"}, "tests")
    yield running
    running.stop()
