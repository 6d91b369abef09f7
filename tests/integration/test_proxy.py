"""The lab's proxy, between a client and a real database."""

import time
from collections.abc import Iterator

import psycopg
import pytest

from windrow import embedded
from windrow.lab.proxy import CUT, HALF_OPEN, Condition, Proxy


@pytest.fixture
def proxy(postgres: embedded.Postgres) -> Iterator[Proxy]:
    with Proxy(lambda: postgres.port) as running:
        yield running


def connect(postgres: embedded.Postgres, proxy: Proxy) -> psycopg.Connection:
    through = postgres.url.replace(f":{postgres.port}/", f":{proxy.port}/")
    return psycopg.connect(through, autocommit=True, connect_timeout=3)


def seconds(connection: psycopg.Connection, statement: str = "SELECT 1") -> float:
    began = time.monotonic()
    connection.execute(statement.encode())
    return time.monotonic() - began


def test_a_cut_breaks_connections_and_refuses_new_ones_until_it_is_mended(
    postgres: embedded.Postgres, proxy: Proxy
) -> None:
    with connect(postgres, proxy) as connection:
        seconds(connection)
        proxy.impose(CUT)
        with pytest.raises(psycopg.OperationalError):
            seconds(connection)
    with pytest.raises(psycopg.OperationalError):
        connect(postgres, proxy)
    proxy.mend()
    with connect(postgres, proxy) as connection:
        seconds(connection)


def test_a_delay_delays(postgres: embedded.Postgres, proxy: Proxy) -> None:
    with connect(postgres, proxy) as connection:
        proxy.impose(Condition(delay=0.2))
        assert seconds(connection) >= 0.4
        proxy.mend()
        assert seconds(connection) < 0.4


def test_a_throttle_slows_down_what_is_large(postgres: embedded.Postgres, proxy: Proxy) -> None:
    with connect(postgres, proxy) as connection:
        proxy.impose(Condition(rate=1_000_000))
        assert seconds(connection, "SELECT repeat('x', 500000)") >= 0.5


def test_conditions_hold_beside_each_other(postgres: embedded.Postgres, proxy: Proxy) -> None:
    with connect(postgres, proxy) as connection:
        proxy.impose(CUT)
        proxy.impose(Condition(delay=0.1))
        with pytest.raises(psycopg.OperationalError):
            seconds(connection)
    with pytest.raises(psycopg.OperationalError):
        connect(postgres, proxy)


def test_a_half_open_connection_is_silent_and_then_reset(postgres: embedded.Postgres, proxy: Proxy) -> None:
    with connect(postgres, proxy) as connection:
        proxy.impose(HALF_OPEN)
        connection.pgconn.send_query(b"SELECT 1")
        with pytest.raises(psycopg.OperationalError):  # one that comes now is not answered either
            connect(postgres, proxy)
        assert not connection.broken
        proxy.mend()
        with pytest.raises(psycopg.OperationalError):
            connection.wait(psycopg.generators.execute(connection.pgconn))
    with connect(postgres, proxy) as connection:
        seconds(connection)
