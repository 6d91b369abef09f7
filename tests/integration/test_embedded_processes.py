"""No process and no folder of an embedded server outlives its starter; and a plain user will do."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from windrow.embedded import folders, mariadb, training

PARENT = """
import sys
from windrow import embedded
servers = [embedded.Postgres(), embedded.Kafka(), embedded.MariaDB()]
for server in servers:
    server.start()
servers[0].pause()
print("up", flush=True)
sys.stdin.read()
"""
PLAIN_USER = """
import os, psycopg
from confluent_kafka.admin import AdminClient
from windrow import embedded
with embedded.Postgres() as postgres, embedded.Kafka() as kafka, embedded.MariaDB():
    with psycopg.connect(postgres.url) as connection:
        print(connection.execute("SELECT 1").fetchone()[0])
    print(len(AdminClient(kafka.client_config).list_topics(timeout=10).brokers))
    print({os.stat(f"/proc/{pid}").st_uid for pid in (postgres.pid, kafka.brokers[0].pid)} == {os.getuid()})
"""


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files, short and open to the servers' account."""
    folder = folders.make_folder(None, "test", None)
    folder.chmod(0o1777)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.05)


def start(arguments: list[str], temporary: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def test_killed_parent_leaves_no_process_and_no_folder(temporary: Path) -> None:
    with start(["-c", PARENT], temporary) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        family = psutil.Process(parent.pid).children(recursive=True)
        assert {"postgres", "java", "mariadbd"} <= {process.name() for process in family}
        assert len(list(temporary.iterdir())) == 3
        parent.kill()
    until(lambda: not any(process.is_running() for process in family))
    until(lambda: not list(temporary.iterdir()))


def test_servers_up_keeps_data_in_a_given_folder_and_ends_in_good_order(temporary: Path) -> None:
    arguments = ["-c", "from windrow.cli.servers import servers; servers()", "up", "--json"]
    arguments += ["--folder", str(temporary / "kept")]
    for number in (signal.SIGINT, signal.SIGTERM):
        with start(arguments, temporary) as command:
            assert command.stdout is not None
            addresses = json.loads(command.stdout.readline())
            with psycopg.connect(addresses["PostgreSQL"]) as connection:
                connection.execute("CREATE TABLE IF NOT EXISTS starts AS SELECT 0 AS number LIMIT 0")
                connection.execute("INSERT INTO starts VALUES (%s)", [number])
                starts = connection.execute("SELECT number FROM starts").fetchall()
            admin = AdminClient({"bootstrap.servers": addresses["Kafka"]})
            admin.create_topics([NewTopic(number.name, 1)])[number.name].result(10)
            topics = admin.list_topics(timeout=10).topics
            family = psutil.Process(command.pid).children(recursive=True)
            command.send_signal(number)
            assert command.wait(30) == 0
        assert not any(process.is_running() for process in family)
    assert starts == [(signal.SIGINT,), (signal.SIGTERM,)]
    assert {"SIGINT", "SIGTERM"} <= set(topics)
    assert [path.name for path in temporary.iterdir()] == ["kept"]


def test_plain_user_runs_all_servers(temporary: Path) -> None:
    own = temporary / "own"
    own.mkdir()
    command = [sys.executable, "-c", PLAIN_USER]
    if os.geteuid() == 0:
        nobody = folders.unprivileged_account()
        assert nobody is not None
        os.chown(own, nobody.uid, nobody.gid)
        # The interpreter may lie in root's own folder: nobody may read it, and is a plain user otherwise.
        ability = [f"--{kind}-caps=+dac_read_search" for kind in ("inh", "ambient")]
        identity = [f"--reuid={nobody.uid}", f"--regid={nobody.gid}", "--clear-groups"]
        command = ["setpriv", *identity, *ability, *command]
    lend_downloads(own / "cache")
    environment = {**os.environ, "HOME": str(own), "TMPDIR": str(own), "WINDROW_CACHE": str(own / "cache")}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=90, check=False)
    assert (run.stdout.split(), run.returncode) == (["1", "1", "True"], 0), run.stderr


def lend_downloads(cache: Path) -> None:
    """What has been fetched, for another user, who may only read it."""
    cache.mkdir()
    training.options()
    for name in ("jars", "classes"):
        (cache / name).symlink_to(folders.cache_folder() / name)
    server = mariadb.find_server(folders.unprivileged_account())
    (cache / server.name).symlink_to(server)
