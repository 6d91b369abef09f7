"""A pytest plugin: real servers, started when a test first wants one and ended with the run.

    pytest_plugins = ["windrow.testing.fixtures"]  # in conftest.py

Needs `windrow[embedded]`. The first run downloads the servers into the user's cache.
"""

from collections.abc import Iterator
from uuid import uuid4

import pytest

from windrow.embedded import Kafka, MariaDB, Postgres
from windrow.relay.setup import prepare
from windrow.settings import Settings


@pytest.fixture(scope="session")
def windrow_postgres() -> Iterator[Postgres]:
    """A PostgreSQL; its `url` names a database that all tests share."""
    with Postgres() as server:
        yield server


@pytest.fixture(scope="session")
def windrow_mariadb() -> Iterator[MariaDB]:
    """A MariaDB; its `url` names a database that all tests share."""
    with MariaDB() as server:
        yield server


@pytest.fixture(scope="session")
def windrow_kafka() -> Iterator[Kafka]:
    """A broker; its `client_config` is what clients need."""
    with Kafka() as server:
        yield server


@pytest.fixture
def windrow_outbox(windrow_postgres: Postgres, windrow_kafka: Kafka) -> Settings:
    """The settings of a relay with an outbox of this test's own, which is there: `Relay(settings)` publishes it."""
    name = f"test_{uuid4().hex[:12]}"
    settings = Settings.load(
        environment={},
        name=name,
        outbox_table=name,
        data_source=windrow_postgres.url,
        base_kafka_config=windrow_kafka.client_config,
    )
    prepare(settings)
    return settings
