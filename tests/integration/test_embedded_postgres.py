"""The embedded PostgreSQL."""

import select
import socket
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from tempfile import gettempdir

import psycopg
import pytest

from windrow import embedded
from windrow.errors import EnvironmentUnfit

SECRET = "it's / secret"  # noqa: S105 - of a server that lives for a second


@pytest.fixture(scope="module")
def postgres() -> Iterator[embedded.Postgres]:
    with embedded.Postgres(settings={"max_connections": 50}) as server:
        yield server


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, connect_timeout=5) as connection:
        row = connection.execute(query).fetchone()
    return None if row is None else row[0]


def test_is_durable_and_takes_settings(postgres: embedded.Postgres) -> None:
    shown = {name: ask(postgres.url, f"SHOW {name}") for name in ("fsync", "synchronous_commit", "wal_level")}
    assert shown == {"fsync": "on", "synchronous_commit": "on", "wal_level": "logical"}
    assert ask(postgres.url, "SHOW max_connections") == "50"


def test_committed_rows_survive_a_kill(postgres: embedded.Postgres) -> None:
    with psycopg.connect(postgres.url) as connection:
        connection.execute("CREATE TABLE survivor AS SELECT 42 AS answer")
    port, first = postgres.port, postgres.pid
    postgres.kill()
    with pytest.raises(psycopg.OperationalError, match="refused"):
        ask(postgres.url, "SELECT 1")
    postgres.restart()
    assert (postgres.port, ask(postgres.url, "SELECT answer FROM survivor")) == (port, 42)
    assert postgres.pid != first


def test_restart_of_a_live_server_ends_its_sessions_and_keeps_its_data(postgres: embedded.Postgres) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
        postgres.restart()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert ask(postgres.url, "SELECT one FROM kept") == 1


def test_paused_server_stands_still_and_goes_on_when_resumed(postgres: embedded.Postgres) -> None:
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        postgres.pause()
        try:
            connection.pgconn.send_query(b"SELECT 1")
            connection.pgconn.flush()
            assert select.select([connection.fileno()], [], [], 0.3)[0] == []
        finally:
            postgres.resume()
        answer = connection.pgconn.get_result()
        assert connection.pgconn.get_result() is None
        assert answer is not None
        assert answer.get_value(0, 0) == b"1"


def test_given_folder_and_password_last(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = reachable(tmp_path_factory)
    with embedded.Postgres(folder, password=SECRET) as server:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 1 AS one")
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            ask(server.url.replace("secret", "wrong"), "SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="no password supplied"):
            psycopg.connect(host="127.0.0.1", port=server.port, user="postgres")
    with embedded.Postgres(folder, password=SECRET) as server:
        assert ask(server.url, "SELECT one FROM kept") == 1
    assert not (folder / "password").exists()


def test_killed_server_leaves_no_folder_and_no_shared_memory() -> None:
    with embedded.Postgres() as server:
        folder = server.folder
        key, _segment = (server.folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()
        assert key in shared_memory_keys()
        server.kill()
        assert key in shared_memory_keys()
    assert key not in shared_memory_keys()
    assert not folder.exists()


def shared_memory_keys() -> list[str]:
    return [row.split()[0] for row in Path("/proc/sysvipc/shm").read_text().splitlines()]


def test_port_in_use_is_named_with_a_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EnvironmentUnfit, match=rf"port {port}, wanted for PostgreSQL.*give another port"):
            embedded.Postgres(port=port).start()


def test_wrong_setting_shows_what_the_server_says() -> None:
    with pytest.raises(EnvironmentUnfit, match="unrecognized configuration parameter"):
        embedded.Postgres(settings={"no_such_setting": 1}).start()


def reachable(factory: pytest.TempPathFactory) -> Path:
    """A folder that the server's account can reach, as pytest's own are closed to others."""
    folder = factory.mktemp("given")
    for each in (folder, *takewhile(lambda parent: parent != Path(gettempdir()), folder.parents)):
        each.chmod(0o755)
    return folder / "data"
